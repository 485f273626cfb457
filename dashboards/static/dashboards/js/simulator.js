// The traffic painter: drag the bars or use the arrow keys; the form then updates all panels.
import { $, $$ } from "./dom.js";
import { toast } from "./toast.js";

const KEYS_MS = 250; // after the last key
const MOST = 999999;
let dragging = false, last = null, timer = 0;
const shown = new Set(); // figures shown as tables

const bars = () => $$("#painter .pb");
const form = () => $("#sim-form");
const top = () => Number($("#painter").dataset.top);
const count = (bar) => Number(bar.getAttribute("aria-valuenow"));

function set(bar, value) {
  const whole = Math.max(0, Math.min(MOST, Math.round(value)));
  const high = Math.min(100, Math.max(0.8, (100 * whole) / top()));
  bar.setAttribute("aria-valuenow", String(whole));
  bar.setAttribute("y", `${100 - high}%`);
  bar.setAttribute("height", `${high}%`);
  $("title", bar).textContent = `${bar.getAttribute("aria-label").replace("Requests ", "")}: ${whole}`;
}

function send() {
  const fields = form().elements;
  fields.traffic.value = "paint";
  fields.bars.value = bars().map(count).join(",");
  fields.step.value = $("#painter").dataset.step;
  $$("[name=preset]", form()).forEach((button) => button.setAttribute("aria-pressed", "false"));
  form().dispatchEvent(new Event("painted"));
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(send, KEYS_MS);
}

// ---------- pointer ----------
function paint(event) {
  const all = bars(), box = $("#painter .painter > svg").getBoundingClientRect();
  const place = Math.max(0, Math.min(all.length - 1, Math.floor(((event.clientX - box.left) / box.width) * all.length)));
  const value = top() * (1 - Math.max(0, Math.min(1, (event.clientY - box.top) / box.height)));
  // A fast pointer skips bars; interpolate them.
  const from = last ?? { place, value }, steps = Math.abs(place - from.place);
  for (let step = 0; step <= steps; step += 1) {
    const part = steps ? step / steps : 1;
    set(all[from.place + Math.sign(place - from.place) * step], from.value + (value - from.value) * part);
  }
  last = { place, value };
}

document.addEventListener("pointerdown", (event) => {
  const svg = event.target.closest?.("#painter .painter > svg");
  if (!svg || event.button) return;
  event.preventDefault();
  dragging = true;
  last = null;
  paint(event);
});
document.addEventListener("pointermove", (event) => { if (dragging) paint(event); });
for (const name of ["pointerup", "pointercancel"]) {
  document.addEventListener(name, () => {
    if (dragging) send();
    dragging = false;
  });
}

// ---------- keyboard ----------
function focus(bar) {
  bars().forEach((each) => each.setAttribute("tabindex", each === bar ? "0" : "-1"));
  bar.focus();
}

document.addEventListener("keydown", (event) => {
  if (!event.target.matches?.("#painter .pb") || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = bars(), place = all.indexOf(event.target), unit = Math.max(1, Math.round(top() / 100));
  const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: all.length - 1 }[event.key];
  const by = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
  if (to === undefined && !by) return;
  event.preventDefault();
  if (by) { set(event.target, count(event.target) + by * unit * (event.shiftKey ? 10 : 1)); later(); }
  else if (all[to]) focus(all[to]);
});

// ---------- the rest of the page ----------
document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-clear]")) { bars().forEach((bar) => set(bar, 0)); send(); }
  if (event.target.closest("[data-share]")) {
    if (form().elements.traffic?.value === "csv") { toast("Cannot link to a CSV", "Share the file instead"); return; }
    try { await navigator.clipboard.writeText(location.href); toast("Link copied", "It includes the traffic and the parameters"); } catch { toast("Copy the URL of this page", "It includes the traffic and the parameters"); }
  }
});

document.addEventListener("change", async (event) => {
  if (event.target.matches(".fig .seg input")) {
    const { name } = event.target;
    if (event.target.matches(".as-table")) shown.add(name); else shown.delete(name);
  }
  if (!event.target.matches("[data-into]") || !event.target.files.length) return;
  const field = document.getElementById(event.target.dataset.into);
  field.value = await event.target.files[0].text();
  event.target.value = "";
  field.dispatchEvent(new Event("change", { bubbles: true }));
});

document.addEventListener("htmx:beforeRequest", () => $("#results").classList.add("is-old"));
document.addEventListener("htmx:afterRequest", () => $("#results").classList.remove("is-old"));
// A response that arrives while the user is painting must not replace the bars.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  if (event.detail.target.id === "painter" && dragging) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:afterSettle", () => {
  shown.forEach((name) => { const input = $(`.as-table[name="${name}"]`); if (input) input.checked = true; });
});
