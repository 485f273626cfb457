// A field for a moment (parts/until.html): buttons for 1 h, 24 h and 7 d, and the moment in UTC and in a named zone.
// The field is in the viewer's zone; the form's hidden `zone` field tells the server which one that is.
import { $, onFresh } from "./dom.js";

const PARTS = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

const inZone = (date, zone) => new Intl.DateTimeFormat("en-GB", { ...PARTS, timeZone: zone }).format(date).replaceAll(",", "");

const padded = (number) => String(number).padStart(2, "0");

function typed(date) {
  const day = `${date.getFullYear()}-${padded(date.getMonth() + 1)}-${padded(date.getDate())}`;
  return `${day}T${padded(date.getHours())}:${padded(date.getMinutes())}`;
}

function said(date, { also, past }) {
  const words = [`${inZone(date, "UTC")} UTC`];
  if (also && also !== "UTC") words.push(`${inZone(date, also)} ${also}`);
  return date < Date.now() && past === undefined ? `${words.join(" · ")}: this is in the past` : words.join(" · ");
}

function show(part) {
  const field = $("input", part), output = $("output", part);
  if (!output) return;
  const date = new Date(field.value);
  output.textContent = field.value && !Number.isNaN(date.getTime()) ? said(date, part.dataset) : output.dataset.empty;
}

function last(part, seconds) {
  const field = $("input", part), start = part.dataset.after ? document.getElementById(part.dataset.after)?.value : "";
  const from = start ? Math.max(new Date(start).getTime(), Date.now()) : Date.now();
  field.value = typed(new Date(from + seconds * 1000));
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-lasts]");
  if (button) last(button.closest(".field[data-until]"), Number(button.dataset.lasts));
});
// A choice that shows a field, such as `Until…` beside the usual lengths.
document.addEventListener("change", (event) => {
  const { shows, hides } = event.target.dataset;
  if (shows || hides) document.getElementById(shows ?? hides).hidden = !shows;
});
document.addEventListener("input", (event) => {
  const part = event.target.closest(".field[data-until]");
  if (part) show(part);
});
onFresh((root) => root.querySelectorAll(".field[data-until]").forEach((part) => {
  const seconds = Number(part.dataset.default ?? 0);
  delete part.dataset.default; // who empties the field wants it empty
  if (part.dataset.at && !$("input", part).value) $("input", part).value = typed(new Date(part.dataset.at));
  delete part.dataset.at;
  if (seconds && !$("input", part).value) last(part, seconds); else show(part);
}));
