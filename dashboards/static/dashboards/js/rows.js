// j and k move the focus through the links of table rows; Enter opens the link.
import { $$, isForPage } from "./dom.js";

document.addEventListener("keydown", (event) => {
  const step = { j: 1, k: -1 }[event.key];
  if (!step || !isForPage(event)) return;
  const links = $$("[data-rows] th[scope=row] a.rowlink");
  if (!links.length) return;
  const place = links.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(place + step, 0), links.length - 1);
  links[next].focus();
});
