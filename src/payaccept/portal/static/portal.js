// What pages gain with JavaScript; each works without it.
"use strict";

// Instants in the viewer's own time zone; UTC on hover.
function localise(root) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent.trim();
    time.textContent = format.format(at);
  }
}

// A button that copies its text, or with none of its own what stands before it, and says that it did.
function offerCopies(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy || button.previousElementSibling.textContent);
  button.classList.add("copied");
  say("Copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
});

// One place that screen readers listen to.
function say(text) {
  let place = document.getElementById("said");
  if (!place) {
    place = document.createElement("p");
    place.id = "said";
    place.className = "visually-hidden";
    place.setAttribute("role", "status");
    document.body.append(place);
  }
  place.textContent = text;
}

const LONGEST_PAUSE_MS = 60_000;

// Whether somebody is at work in a part of the page: what they do there must not be taken from them.
function isInUse(place) {
  if (place.contains(document.activeElement)) return true;
  const typed = (field) => (field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
  return [...place.querySelectorAll("input:not([type=hidden]), textarea")].some(typed);
}

// What was unfolded stays so.
function keepOpen(before, after) {
  const [old, fresh] = [before, after].map((place) => [...place.querySelectorAll("details")]);
  if (old.length === fresh.length) fresh.forEach((one, at) => (one.open = old[at].open));
}

// An element with an id and data-live="5" is fetched again every five seconds, while somebody looks at it.
function keepLive(element) {
  const pauseMs = Number(element.dataset.live) * 1000;
  if (!(pauseMs >= 1000)) return;
  let place = element;
  let failures = 0;
  const again = async () => {
    if (!place.isConnected) return;
    if (!document.hidden && !isInUse(place)) {
      failures += 1;
      try {
        const answer = await fetch(location.href, { redirect: "error", cache: "no-store" });
        const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(place.id);
        if (answer.ok && made) {
          failures = 0;
          if (isInUse(place)) return wait(); // since it was asked for
          // What surrounds it was made for another state: what is being typed would be for nothing.
          if (made.dataset.state !== place.dataset.state) return location.reload();
          prepare(made);
          keepOpen(place, made);
          place.replaceWith(made);
          place = made;
          if (!made.dataset.live) return;
        }
      } catch {
        // The service is away, or nobody is signed in any more: a later time may tell.
      }
    }
    wait();
  };
  const wait = () => setTimeout(again, Math.min(pauseMs * 2 ** failures, Math.max(pauseMs, LONGEST_PAUSE_MS)));
  wait();
}

// A password can be looked at while it is typed; it is sent as one all the same.
function offerLooks(root) {
  for (const button of root.querySelectorAll("button[data-reveal]")) button.hidden = false;
}

function reveal(button, shown) {
  document.getElementById(button.dataset.reveal).type = shown ? "text" : "password";
  button.firstChild.textContent = shown ? "Hide" : "Show";
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-reveal]");
  if (button) reveal(button, document.getElementById(button.dataset.reveal).type === "password");
});

document.addEventListener("submit", (event) => {
  for (const button of event.target.querySelectorAll("button[data-reveal]")) reveal(button, false);
});

// A form with data-verdict says what is thought of a key, or an address, while it is filled in. A private key is
// not sent at all.
function judge(form) {
  const place = form.querySelector(".verdict");
  const tell = (good, text) => {
    place.hidden = !text;
    place.textContent = text;
    place.classList.toggle("good", good);
  };
  const isPrivate = async () => {
    if (!form.elements.pem) return false;
    const file = form.elements.file.files[0];
    const chosen = file && file.size < 1e6 ? await file.text() : "";
    return (form.elements.pem.value + chosen).includes("PRIVATE KEY");
  };
  const refuse = () => {
    form.elements.pem.value = form.elements.file.value = "";
    tell(false, "That is a private key. It was not sent, and is gone from this page: give the public half.");
  };
  let waiting;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      if (await isPrivate()) return refuse();
      const filled = [...form.elements].some((one) => one.type !== "hidden" && one.name && one.value.trim());
      if (!filled) return tell(false, "");
      try {
        const answer = await fetch(form.dataset.verdict, { method: "POST", body: new FormData(form), redirect: "error" });
        const verdict = await answer.json();
        tell(verdict.good, verdict.text);
      } catch {
        tell(false, "");
      }
    }, 250);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await isPrivate()) refuse();
    else form.submit();
  });
}

function prepare(root) {
  localise(root);
  offerCopies(root);
  offerLooks(root);
}

prepare(document);
for (const element of document.querySelectorAll("[data-live]")) keepLive(element);
for (const form of document.querySelectorAll("form[data-verdict]")) judge(form);
document.querySelector("[data-focus]")?.focus();
// The section one is in, where they stand in one line that is wider than the screen.
document.querySelector(".sections [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
