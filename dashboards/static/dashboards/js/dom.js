// Helpers for all modules.
export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function icon(name, classes = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `i ${classes}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// A single key is the page's, unless somebody types, moves a slider or has a dialog open.
export const isForPage = (event) => !event.ctrlKey && !event.metaKey && !event.altKey && !$("dialog[open]")
  && !event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=slider]");

// Calls `start` once for the page, and for each part that htmx or a live refresh replaces.
export function onFresh(start) {
  start(document);
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    // A form that was replaced as a whole is gone; its successor is in the same dialog.
    start(target.isConnected ? target : $("dialog[open]") ?? document);
  });
  document.addEventListener("hr:fresh", (event) => start(event.target));
}
