// The limits matrix: keyboard navigation, selection, filters, and the editor.
/* global htmx */
import { $, $$, onFresh } from "./dom.js";
import { editor } from "./editor.js";
import { refresh } from "./live.js";

const grid = $("#matrix-grid"), inspector = $("#inspector"), filter = $("#matrix-filter");
const url = $("#matrix").dataset.cellUrl;
const NARROW = matchMedia("(max-width: 1100px)");
grid.style.setProperty("--columns", grid.tHead.rows[0].cells.length - 1);
let chosen = [], home = null, wantsFocus = false; // chosen: keys of the selected cells

const cellOf = (key) => $(`.cell[data-cell="${CSS.escape(key)}"]`, grid);

// ---------- selection ----------
function mark() {
  for (const cell of $$(".cell[aria-pressed=true]", grid)) cell.setAttribute("aria-pressed", "false");
  for (const key of chosen) cellOf(key)?.setAttribute("aria-pressed", "true");
}

function rove(cell) {
  $(".cell[tabindex='0']", grid)?.setAttribute("tabindex", "-1");
  cell.setAttribute("tabindex", "0");
}

function choose(cell, isMany, focusEditor) {
  const key = cell.dataset.cell;
  if (isMany && chosen.length) chosen = chosen.includes(key) ? chosen.filter((other) => other !== key) : [...chosen, key];
  else chosen = [key];
  home = cell.dataset.cell;
  wantsFocus = focusEditor;
  mark();
  rove(cell);
  load();
}

function load(limit = "") {
  if (!chosen.length) { leave(); return; }
  const query = new URLSearchParams(chosen.map((key) => ["at", key]));
  if (limit) query.set("limit", limit);
  inspector.classList.add("is-open");
  htmx.ajax("GET", `${url}?${query}`, { target: "#inspector", swap: "innerHTML" });
}

const empty = inspector.innerHTML;
function leave() {
  chosen = [];
  mark();
  inspector.classList.remove("is-open");
  inspector.innerHTML = empty;
  if (home) cellOf(home)?.focus();
}

grid.addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  if (cell) choose(cell, event.shiftKey, false);
});

// ---------- keyboard ----------
function beside(cell, key) {
  const place = cell.closest("td"), row = place.parentElement;
  if (key === "ArrowRight") return place.nextElementSibling;
  if (key === "ArrowLeft") return place.previousElementSibling;
  let next = row;
  do next = key === "ArrowDown" ? next.nextElementSibling : next.previousElementSibling; while (next && next.hidden);
  return next?.cells[place.cellIndex];
}

grid.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  if (event.key.startsWith("Arrow")) {
    const next = beside(cell, event.key)?.querySelector(".cell");
    event.preventDefault();
    if (!next) return;
    rove(next);
    next.focus();
    if (event.shiftKey) {
      if (!chosen.length) chosen = [cell.dataset.cell];
      choose(next, !chosen.includes(next.dataset.cell), false);
    }
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(cell, event.shiftKey, !event.shiftKey);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (event.target === filter) { filter.value = ""; sift(); cellOf(home ?? "")?.focus(); }
  else if (inspector.contains(event.target) || grid.contains(event.target)) leave();
});

// ---------- filters ----------
function sift() {
  const words = filter.value.trim().toLowerCase();
  const tags = $$(".chip[aria-pressed=true]").map((chip) => chip.dataset.tag);
  let shown = 0;
  for (const row of grid.tBodies[0].rows) {
    const fits = (cell) => tags.every((tag) => cell.dataset.tags.split(" ").includes(tag));
    const cells = $$(".cell", row);
    cells.forEach((cell) => cell.classList.toggle("is-aside", tags.length > 0 && !fits(cell)));
    row.hidden = !row.dataset.scope.toLowerCase().includes(words) || (tags.length > 0 && !cells.some(fits));
    shown += row.hidden ? 0 : 1;
  }
  $("#matrix-none").hidden = shown > 0;
  // Tab enters the grid at one cell, which must be visible.
  if ($(".cell[tabindex='0']", grid)?.closest("tr").hidden) {
    const first = $("tr:not([hidden]) .cell", grid.tBodies[0]);
    if (first) rove(first);
  }
}

filter.addEventListener("input", sift);
$("#matrix-chips").addEventListener("click", (event) => {
  const chip = event.target.closest(".chip");
  if (!chip) return;
  chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
  sift();
});

// ---------- editor ----------
editor(inspector, {
  load: (limit) => { if (chosen.length === 1) load(limit); },
  leave,
  loaded() {
    if (wantsFocus) $(".input:not([disabled]), .select", inspector)?.focus();
    else if (NARROW.matches) inspector.scrollIntoView({ block: "nearest" });
    wantsFocus = false;
  },
});
// The server sends this event after publishing.
document.body.addEventListener("matrix:changed", () => refresh());

onFresh((part) => {
  if (part !== document && part.id !== "matrix-body") return;
  const first = cellOf(home ?? "") ?? $(".cell", grid);
  if (first) rove(first);
  mark();
  sift();
});

// Opens the cells named in the URL: /matrix?at=pro/rider:quote
const wanted = new URL(location.href).searchParams.getAll("at").filter((key) => cellOf(key));
if (wanted.length) {
  chosen = wanted;
  home = wanted[0];
  mark();
  cellOf(home).scrollIntoView({ block: "nearest" });
  load(new URL(location.href).searchParams.get("limit") ?? "");
}
