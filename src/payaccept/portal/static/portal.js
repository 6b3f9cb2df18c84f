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

// A button that copies its text, and says that it did.
function offerCopies(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
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

// An element with an id and data-live="5" is fetched again every five seconds, while somebody looks at it.
function keepLive(element) {
  const pauseMs = Number(element.dataset.live) * 1000;
  if (!(pauseMs >= 1000)) return;
  let place = element;
  const again = async () => {
    if (!place.isConnected) return;
    const busy = document.hidden || place.contains(document.activeElement);
    if (!busy) {
      try {
        const answer = await fetch(location.href, { redirect: "error", cache: "no-store" });
        const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(place.id);
        if (answer.ok && made) {
          // What surrounds it was made for another state: what is being typed would be for nothing.
          if (made.dataset.state !== place.dataset.state) return location.reload();
          prepare(made);
          place.replaceWith(made);
          place = made;
          if (!made.dataset.live) return;
        }
      } catch {
        // The service is away, or nobody is signed in any more: the next time may tell.
      }
    }
    setTimeout(again, pauseMs);
  };
  setTimeout(again, pauseMs);
}

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
}

prepare(document);
for (const element of document.querySelectorAll("[data-live]")) keepLive(element);
for (const form of document.querySelectorAll("form[data-verdict]")) judge(form);
document.querySelector("[data-focus]")?.focus();
// The section one is in, where they stand in one line that is wider than the screen.
document.querySelector(".sections [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
