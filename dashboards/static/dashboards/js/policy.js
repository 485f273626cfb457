// A policy's page: opens its limits in the editor.
/* global htmx */
import { $ } from "./dom.js";
import { editor } from "./editor.js";
import { refresh } from "./live.js";

const inspector = $("#inspector"), empty = inspector.innerHTML;
// A page that only adds a limit starts in its first field.
const isNew = inspector.dataset.limit === "+";
let opener = null;

function load(limit) {
  const query = new URLSearchParams({ at: inspector.dataset.cell, limit });
  inspector.classList.add("is-open");
  htmx.ajax("GET", `${inspector.dataset.cellUrl}?${query}`, { target: "#inspector", swap: "innerHTML" });
}

function leave() {
  inspector.classList.remove("is-open");
  inspector.innerHTML = empty;
  opener?.focus();
}

editor(inspector, {
  load,
  leave,
  loaded() {
    if (opener || isNew) $(".input:not([disabled]), .select", inspector)?.focus();
    if (matchMedia("(max-width: 1100px)").matches) inspector.scrollIntoView({ block: "nearest" });
  },
});
document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-edit]");
  if (!pressed) return;
  opener = pressed;
  load(pressed.dataset.edit);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && inspector.contains(event.target)) leave();
});
// The server sends this event after publishing.
document.body.addEventListener("matrix:changed", () => refresh());

if (inspector.dataset.limit) load(inspector.dataset.limit);
