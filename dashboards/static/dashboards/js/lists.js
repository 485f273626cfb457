// A list page: searches as one types, ticks rows (also on several pages), and answers the keys j k x b Esc.
import { $, $$, isForPage, onFresh } from "./dom.js";
import { open } from "./dialogs.js";
import { refresh } from "./live.js";
import "./rows.js";

const WAIT_MS = 200;
const ticked = new Set();
let isAll = false, last = null, wait = 0;

const form = $("[data-list-form]");
const boxes = () => $$("[data-pick]");
const list = () => $("#list");

// The page at another address: only its parts are replaced, so that what is typed and ticked stays.
async function show(url, { keepsTicks = false, isStep = false } = {}) {
  if (!keepsTicks) clear();
  history[isStep ? "pushState" : "replaceState"](null, "", url);
  list()?.setAttribute("aria-busy", "true");
  try { await refresh(); } catch { location.reload(); } finally { list()?.removeAttribute("aria-busy"); }
}

function address() {
  const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  return `${location.pathname}?${given}`;
}

// ---- ticked rows
function sync() {
  const rows = boxes(), bar = $("[data-bulk]");
  for (const box of rows) {
    box.checked = isAll || ticked.has(box.dataset.pick);
    box.closest("tr").classList.toggle("is-selected", box.checked);
  }
  const all = $("[data-pick-all]"), on = rows.filter((box) => box.checked).length;
  if (all) { all.checked = on > 0 && on === rows.length; all.indeterminate = on > 0 && on < rows.length; }
  if (!bar) return;
  bar.hidden = !isAll && !ticked.size;
  const every = $("[data-bulk-all]", bar);
  $("[data-n]", bar).textContent = isAll ? "All that match" : `${ticked.size} selected`;
  every.hidden = isAll || !(all?.checked) || !$(".card-foot a[rel=next], .card-foot a[rel=prev]");
  const hidden = isAll ? [["all", "1"]] : [...ticked].map((name) => ["names", name]);
  const csrf = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
  $("#bulk-form").replaceChildren(...[...hidden, ["csrfmiddlewaretoken", csrf]].map(([name, value]) => {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name, value });
    return field;
  }));
}

function clear() { isAll = false; ticked.clear(); last = null; sync(); }

function tick(box, on) {
  if (isAll) { isAll = false; boxes().forEach((each) => ticked.add(each.dataset.pick)); }
  if (on) ticked.add(box.dataset.pick); else ticked.delete(box.dataset.pick);
}

function tickTo(box) {
  const rows = boxes(), from = rows.findIndex((each) => each.dataset.pick === last), to = rows.indexOf(box);
  rows.slice(Math.min(from < 0 ? to : from, to), Math.max(from, to) + 1).forEach((each) => tick(each, true));
}

document.addEventListener("click", (event) => {
  const box = event.target.closest("[data-pick]");
  if (box) {
    if (event.shiftKey && last !== null) tickTo(box); else tick(box, box.checked);
    last = box.dataset.pick;
    sync();
    return;
  }
  if (event.target.matches("[data-pick-all]")) {
    const on = event.target.checked;
    boxes().forEach((each) => tick(each, on));
    sync();
  }
  if (event.target.closest("[data-bulk-all]")) { isAll = true; ticked.clear(); sync(); }
  if (event.target.closest("[data-bulk-none]")) clear();
  const link = event.target.closest("a[data-visit]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    if (link.matches("[data-clears]")) { location.href = link.href; return; }
    // Another page of the same list: what is ticked stays ticked. Another order too.
    show(link.href, { keepsTicks: true, isStep: true });
  }
});

// ---- search and filters
if (form) {
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(wait); show(address()); });
  form.addEventListener("change", (event) => { if (!event.target.matches("[data-find]")) show(address()); });
  form.addEventListener("input", (event) => {
    if (!event.target.matches("[data-find]")) return;
    clearTimeout(wait);
    wait = setTimeout(() => show(address()), WAIT_MS);
  });
  document.addEventListener("click", (event) => {
    $$("[data-filter][open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
  });
}

// ---- keys
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const find = $("[data-find]");
    const menu = $("[data-filter][open]");
    if (menu) { menu.open = false; $("summary", menu).focus(); } else if (event.target === find) find.blur(); else if (!$("dialog[open]")) clear();
    return;
  }
  if (!isForPage(event)) return;
  if (event.key === "b") $$("[data-bulk] button").find((each) => each.offsetParent !== null)?.focus();
  if (event.key.toLowerCase() !== "x") return;
  const box = $("[data-pick]", document.activeElement.closest("tr") ?? document.createElement("i"));
  if (!box) return;
  if (event.shiftKey) tickTo(box); else tick(box, !box.checked);
  last = box.dataset.pick;
  sync();
});

// ---- dialogs of bulk actions, opened when their own triggers work
document.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target.id === "bulk-dialog") open(event.detail.target); });
document.addEventListener("hr:fresh", (event) => globalThis.htmx?.process(event.target));
// The view that is saved is the one that is seen, also after filters changed without a new page.
document.addEventListener("hr:fresh", () => {
  const field = $("[data-view-form] [name=query]");
  if (field && list()) field.value = list().dataset.query;
});
// What was ticked before this script ran stays ticked.
boxes().forEach((box) => { if (box.checked || $("[data-pick-all]")?.checked) ticked.add(box.dataset.pick); });
onFresh(() => sync());
