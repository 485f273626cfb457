// Keeps a page up to date. The server sends an event when something changed (SSE, or polling if that fails); the page is
// fetched again and each part marked data-live is replaced. Parts that the user is editing or selecting are not replaced.
import { $, $$ } from "./dom.js";

const EVERY_MS = 5000;
const button = $("[data-live-switch]");
const isLive = () => button !== null && button.getAttribute("aria-pressed") === "true";
let source = null, timer = 0, busy = false, isAsked = false;

function inUse(part) {
  const selection = document.getSelection();
  const focused = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
  return focused || (selection && !selection.isCollapsed && selection.containsNode(part, true));
}

// Equal for the same thing before and after: a link to the same place, a button with the same words.
const sign = (element) => [element.tagName, element.id, element.getAttribute("href") ?? element.textContent.trim()].join("\n");

function replace(part, next) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const wanted = focused && sign(focused);
  part.replaceChildren(...next.childNodes);
  if (focused) $$(focused.tagName, part).find((each) => sign(each) === wanted)?.focus({ preventScroll: true });
  for (const { name, value } of next.attributes) part.setAttribute(name, value);
  globalThis.htmx?.process(part); // it knows only what the page came with
  part.dispatchEvent(new CustomEvent("hr:fresh", { bubbles: true }));
}

export async function refresh() {
  if (busy) { isAsked = true; return; } // the address may have changed meanwhile
  busy = true;
  isAsked = false;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html", "X-Refresh": "1" } });
    if (!response.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of $$("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next && !inUse(part)) replace(part, next);
    }
  } finally {
    busy = false;
  }
  if (isAsked) await refresh();
}

// Loads the same page at another URL, for example after zooming.
export async function visit(url) {
  history.pushState(null, "", url);
  await refresh();
}
addEventListener("popstate", () => refresh());

const quietly = () => { if (!document.hidden) refresh().catch(() => {}); };

function stop() {
  source?.close();
  source = null;
  clearInterval(timer);
}

function start() {
  stop();
  source = new EventSource(button.dataset.liveSwitch);
  source.addEventListener("fresh", quietly);
  source.onopen = () => clearInterval(timer);
  source.onerror = () => { clearInterval(timer); timer = setInterval(quietly, EVERY_MS); };
}

function show(live) {
  button.setAttribute("aria-pressed", String(live));
  $("span", button).lastChild.textContent = live ? "Live" : "Paused";
  const url = new URL(location.href);
  if (live) url.searchParams.delete("live"); else url.searchParams.set("live", "0");
  history.replaceState(null, "", url);
  if (live) { start(); quietly(); } else stop();
}

if (button) {
  button.addEventListener("click", () => show(!isLive()));
  if (isLive()) start();
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted && isLive()) start(); });
}
