// What a customer's page gains with JavaScript: it follows the payment, counts down, and leads back.
"use strict";

const AWAY_MS = 500;
let stopCounting = () => {};

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function untilSeen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

// Asks often while somebody is likely to be paying just now, and seldom when not.
function pauseMs(sinceMs) {
  if (sinceMs < 30_000) return 1500;
  return sinceMs < 300_000 ? 3000 : 10_000;
}

async function ask(path) {
  try {
    const answer = await fetch(path, { cache: "no-store", redirect: "error" });
    return answer.ok ? await answer.json() : {};
  } catch {
    // Away for a moment: the next time may tell.
    return {};
  }
}

// While a payment is open, its state is asked for; when it has changed, so does the page.
async function follow(place) {
  const begun = Date.now();
  while (place.isConnected) {
    await wait(pauseMs(Date.now() - begun));
    await untilSeen();
    const { state } = await ask(`${place.dataset.page}/status`);
    if (state && state !== place.dataset.state) return show(place);
  }
}

async function show(place) {
  // It was shown anew already.
  if (!place.isConnected) return;
  const answer = await fetch(place.dataset.page, { cache: "no-store", redirect: "error" }).catch(() => null);
  if (!answer?.ok) return void setTimeout(show, 3000, place);
  if (!place.isConnected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const made = page.getElementById("main");
  const held = document.activeElement !== document.body;
  stopCounting();
  place.replaceWith(made);
  document.title = page.title;
  prepare(made);
  begin(made);
  say(page.title);
  if (held) made.focus();
}

function everySecond(step) {
  const timer = setInterval(step, 1000);
  const previous = stopCounting;
  stopCounting = () => {
    clearInterval(timer);
    previous();
    stopCounting = () => {};
  };
}

// The time that is left, by the service's clock.
function countDown(place) {
  const until = place.querySelector("[data-until]");
  if (!until) return;
  const aheadMs = Date.now() - Date.parse(place.dataset.now);
  const end = Date.parse(until.dateTime) + aheadMs;
  const write = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    until.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    if (left === 0) {
      stopCounting();
      setTimeout(show, AWAY_MS, place);
    }
  };
  write();
  everySecond(write);
}

// Back to the merchant by itself, unless the customer wants to stay.
function goBack(place) {
  const link = place.querySelector("[data-continue-after]");
  const told = place.querySelector("[data-by-itself]");
  if (!link || !told) return;
  let left = Number(link.dataset.continueAfter);
  everySecond(() => {
    left -= 1;
    told.querySelector("[data-seconds]").textContent = String(Math.max(0, left));
    if (left > 0) return;
    stopCounting();
    location.replace(link.href);
  });
  told.querySelector("[data-stay]").addEventListener("click", (event) => {
    event.preventDefault();
    stopCounting();
    told.remove();
    link.focus();
  });
}

// An app that is not there leaves this page as it was.
function watchApp(place) {
  place.querySelector("[data-app]")?.addEventListener("click", () => {
    setTimeout(() => {
      if (!document.hidden) place.querySelector("[data-no-app]").hidden = false;
    }, 2500);
  });
}

// The code for a till: how long it works, and which payment has used it.
async function followCode(place) {
  const end = Date.now() + Number(place.dataset.codeLife) * 1000;
  const text = place.querySelector("[data-life-text]");
  everySecond(() => {
    const left = Math.ceil((end - Date.now()) / 1000);
    text.textContent = left > 0 ? `It works once, within ${left} ${left === 1 ? "second" : "seconds"}.` : "This code has run out.";
    if (left <= 0) stopCounting();
  });
  // A charge that began in the last moment ends a little later.
  while (Date.now() < end + 10_000) {
    await wait(1500);
    await untilSeen();
    const { opens } = await ask(place.dataset.used);
    if (opens) return location.assign(opens);
  }
}

function begin(place) {
  for (const element of place.querySelectorAll("[data-without-script]")) element.hidden = true;
  countDown(place);
  goBack(place);
  watchApp(place);
  if (place.dataset.page) follow(place);
}

begin(document.getElementById("main"));
for (const place of document.querySelectorAll("[data-code-life]")) followCode(place);
addEventListener("pagehide", () => stopCounting());
