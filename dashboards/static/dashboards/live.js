// Keeps a page fresh: every few seconds the same page is fetched, and each part marked data-live takes
// its new content. What the reader is using (a part with the focus or a selection) is left alone.
"use strict";

const EVERY_MS = 5000;

function inUse(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement) || (selection && !selection.isCollapsed && selection.containsNode(part, true));
}

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const parts = document.querySelectorAll("[data-live]");
  // The first request ever, or the last one leaving the span, changes what the page is made of.
  if (parts.length !== fresh.querySelectorAll("[data-live]").length) return location.reload();
  for (const part of parts) {
    const next = fresh.getElementById(part.id);
    if (next && !inUse(part)) part.replaceChildren(...next.childNodes);
  }
}

setInterval(() => refresh().catch(() => {}), EVERY_MS);
