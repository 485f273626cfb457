// A pool's page: the bar of shares with its handles, and the bar that saves what was changed.
/* global htmx */
import { $, $$ } from "./dom.js";

const form = $("#pool-form");
const WAIT_MS = 400;
const LABEL_GAP = 18;  // px of a part that its label leaves to the handles
const rate = Number(form?.dataset.rate), unit = form?.dataset.unit;
const shown = (value) => Number(value.toFixed(2)).toLocaleString("en");
const exact = (value) => Number(value.toFixed(6));  // 0.1 + 0.2 is 0.3; more decimals are refused
let timer;

const field = (name, index) => form.elements[`${name}-${index}`];
const rows = () => $$('input[name^="k-"]', form).map((input) => Number(input.name.slice(2)));

// The tenant or the limit, with the place if one has several shares.
function nameOf(index) {
  const name = (row) => { const [tenant, , limit] = field("k", row).value.split("|"); return tenant || limit; };
  const isOne = rows().filter((row) => name(row) === name(index)).length === 1;
  return isOne ? name(index) : `${name(index)} on ${field("k", index).value.split("|")[1]}`;
}

// What was changed, in words: "kite 30 → 40".
function changes() {
  const found = [];
  for (const index of rows()) {
    if (!field("g", index)) continue;
    if (field("r", index)?.checked) { found.push(`${nameOf(index)} without a share of its own`); continue; }
    const was = (name) => field(`was-${name}`, index).value, now = (name) => field(name, index).value;
    if (now("g") !== was("g")) found.push(`${nameOf(index)} ${was("g")} → ${now("g") || "?"}`);
    if (now("c") !== was("c")) found.push(`ceiling of ${nameOf(index)} ${was("c") || "none"} → ${now("c") || "none"}`);
  }
  return found;
}

function saveBar(asks = true) {
  const bar = $("#pool-save");
  if (!bar) return;
  const found = changes(), isTyped = found.length > 0;
  bar.hidden = !isTyped && !$("[role=alert]", bar);
  $("[data-pool-diff]", bar).textContent = found.join(", ");
  if (!asks) return;
  clearTimeout(timer);
  $("#pool-told", bar).replaceChildren();  // it told of other shares
  if (isTyped) timer = setTimeout(plan, WAIT_MS);
}

// The dry run. The form's own errors stay until something else is typed.
function plan() {
  htmx.ajax("POST", form.dataset.plan, { source: form, target: "#pool-told", swap: "innerHTML", values: htmx.values(form) });
}

const parts = () => $$("#sharebar [data-part]").map((group) => Number(group.dataset.part));
const valueOf = (index) => Math.max(0, Number(field("g", index)?.value ?? field("was-g", index).value) || 0);
const total = () => parts().reduce((sum, index) => sum + valueOf(index), 0);

function draw() {
  const bar = $("#sharebar");
  if (!bar) return;
  const whole = Math.max(rate, total()) || 1, handles = $$(".handle", bar);
  let at = 0;
  const place = (group, name, value) => {
    const width = 100 * value / whole;
    for (const rect of $$("rect", group)) { rect.setAttribute("x", `${at}%`); rect.setAttribute("width", `${width}%`); }
    $(".sub", group).textContent = `${shown(value)} ${unit}`;
    $("title", group).textContent = `${name}: ${shown(value)} ${unit}`;
    for (const text of $$("text", group)) {
      text.setAttribute("x", `${at + width / 2}%`);
      text.classList.remove("is-cut");  // what is not shown has no length
      text.classList.toggle("is-cut", text.getComputedTextLength() > bar.clientWidth * width / 100 - LABEL_GAP);
    }
    at += width;
  };
  $$("[data-part]", bar).forEach((group, i) => {
    const index = Number(group.dataset.part), value = valueOf(index);
    place(group, nameOf(index), value);
    const handle = handles[i];
    if (!handle) return;
    handle.style.left = `${at}%`;
    handle.setAttribute("aria-valuenow", value);
    handle.setAttribute("aria-valuetext", `${nameOf(index)} ${shown(value)} ${unit}`);
  });
  const free = $("[data-free]", bar);
  free.classList.toggle("is-none", whole - total() <= 0);
  place(free, "not guaranteed", Math.max(0, whole - total()));
}

// Moves share between the part left of the handle and the one right of it, or what nobody is guaranteed.
function move(i, by) {
  const [left, right] = [parts()[i], parts()[i + 1]];
  // The share of a member with an override is not edited.
  if (!field("g", left) || (right !== undefined && !field("g", right))) return;
  const room = right === undefined ? Math.max(0, rate - total()) : valueOf(right);
  const step = Math.max(-valueOf(left), Math.min(room, by));
  if (!step) return;
  field("g", left).value = exact(valueOf(left) + step);
  if (right !== undefined) field("g", right).value = exact(valueOf(right) - step);
  keepCeiling(left);
  if (right !== undefined) keepCeiling(right);
  draw();
  saveBar();
}

// A ceiling below the share would be refused.
function keepCeiling(index) {
  const ceiling = field("c", index);
  if (ceiling.value && Number(ceiling.value) < valueOf(index)) ceiling.value = valueOf(index);
}

function drag(handle, i) {
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    const to = (moved) => {
      const box = $("#sharebar").getBoundingClientRect(), whole = Math.max(rate, total());
      const before = parts().slice(0, i + 1).reduce((sum, index) => sum + valueOf(index), 0);
      move(i, Math.round(whole * (moved.clientX - box.left) / box.width - before));
    };
    const stop = () => handle.removeEventListener("pointermove", to);
    handle.addEventListener("pointermove", to);
    handle.addEventListener("pointerup", stop, { once: true });
    handle.addEventListener("pointercancel", stop, { once: true });
  });
  handle.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    move(i, step * (event.shiftKey ? 5 : 1));
  });
}

// Somebody else saved meanwhile: rows show their shares, except where something was typed.
function takeOver() {
  for (const now of $$("[data-now]")) {
    const was = form.elements[`was-${now.dataset.now}`], typed = form.elements[now.dataset.now];
    if (typed.value === was.value) typed.value = now.value;
    was.value = now.value;
  }
}

for (const choice of $$("[data-pool-choice]")) choice.addEventListener("change", () => { location.href = choice.value; });

if (form) {
  $$(".handle", form).forEach(drag);
  form.addEventListener("input", (event) => {
    if (!/^[gcr]-/.test(event.target.name)) return;
    draw();
    saveBar();
  });
  form.addEventListener("click", (event) => {
    if (!event.target.closest("[data-pool-reset]")) return;
    for (const index of rows()) {
      if (!field("g", index)) continue;
      field("g", index).value = field("was-g", index).value;
      field("c", index).value = field("was-c", index).value;
      if (field("r", index)) field("r", index).checked = false;
    }
    draw();
    saveBar();
  });
  if ($("#sharebar")) new ResizeObserver(draw).observe($("#sharebar"));  // other labels fit then
  document.addEventListener("htmx:afterSwap", ({ target }) => { if (target.id === "pool-save") { takeOver(); draw(); saveBar(false); } });
  draw();
  saveBar();
}
