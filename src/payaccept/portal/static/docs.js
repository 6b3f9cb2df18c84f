// What documentation gains with JavaScript: code that is copied with a button, and where one is on the page.
"use strict";

const COPY_ICON = "M7 7h9.5v9.5H7zM4.5 13H3.5V3.5H13v1";

function copyButton(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.dataset.copy = text;
  button.setAttribute("aria-label", "Copy this code");
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("class", "icon");
  icon.setAttribute("viewBox", "0 0 20 20");
  icon.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", COPY_ICON);
  icon.append(path);
  button.append(icon);
  return button;
}

if (navigator.clipboard) {
  for (const code of document.querySelectorAll(".code:not(.output)")) {
    code.append(copyButton(code.querySelector("pre").textContent.trimEnd()));
  }
}

// The heading that was passed last is the one that is read.
const links = new Map([...document.querySelectorAll(".here a")].map((link) => [link.hash.slice(1), link]));
const headings = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
let marked = null;

function mark() {
  const passed = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
  const link = links.get((passed.at(-1) ?? headings[0])?.id);
  if (link === marked) return;
  marked?.removeAttribute("aria-current");
  link?.setAttribute("aria-current", "true");
  marked = link;
}

if (headings.length) {
  addEventListener("scroll", mark, { passive: true });
  mark();
}
document.querySelector(".contents [aria-current]")?.scrollIntoView({ block: "nearest" });
