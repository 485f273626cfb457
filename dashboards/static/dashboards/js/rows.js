// j and k move the focus through the links of table rows; Enter opens the link.
import { $$ } from "./dom.js";

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const links = $$("[data-rows] th[scope=row] a.rowlink");
  if (!links.length) return;
  const place = links.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(place + step, 0), links.length - 1);
  links[next].focus();
});
