// Shows times in the viewer's zone. The title has the absolute time and the zone.
import { $$, onFresh } from "./dom.js";

const FORMS = {
  full: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" },
  moment: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false },
  seconds: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false },
  clock: { hour: "2-digit", minute: "2-digit", hour12: false },
  day: { day: "numeric", month: "short", year: "numeric" },
};
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const writers = new Map(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat("en-GB", form)]));

export const zone = writers.get("full").formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;

export function written(date, form) {
  return (writers.get(form) ?? writers.get("moment")).format(date).replace(",", "");
}

function distance(date) {
  const seconds = Math.round((Date.now() - date) / 1000), size = Math.abs(seconds);
  const [unit, length] = UNITS.find(([, length]) => size >= 2 * length) ?? ["s", 1];
  const text = `${Math.floor(size / length)}\u00a0${unit}`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function localise(time) {
  const date = new Date(time.dateTime);
  const form = time.dataset.as;
  time.textContent = form === "ago" ? distance(date) : written(date, form);
  time.title = written(date, "full");
}

onFresh((root) => {
  $$("time[data-as]", root).forEach(localise);
  $$("input[data-zone-name]", root).forEach((field) => { field.value = Intl.DateTimeFormat().resolvedOptions().timeZone; });
  $$("[data-zone]", root).forEach((place) => { place.textContent = zone; });
});
setInterval(() => $$("time[data-as=ago]").forEach(localise), 5000);
