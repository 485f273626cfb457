// Runs before the first paint: applies the chosen theme, if any (otherwise the system's applies), and keeps what somebody
// does before the other scripts listen. They all run before DOMContentLoaded; what was kept is done again right after it.
"use strict";
try {
  const chosen = localStorage.getItem("hr-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is not available in some private windows */ }
{
  // These do nothing by themselves. Links, submit buttons and buttons of a popover do, and are left to the browser.
  const SCRIPTED = "button[type=button]:not([popovertarget])";
  const edited = { input: new Set(), change: new Set() };
  let pressed = null;

  const keepPress = (event) => {
    const button = event.target.closest(SCRIPTED);
    if (!button) return;
    event.stopImmediatePropagation();
    pressed?.removeAttribute("aria-busy");
    pressed = button; // of several, the last
    button.setAttribute("aria-busy", "true");
  };
  const keepEdit = (event) => {
    event.stopImmediatePropagation();
    edited[event.type].add(event.target);
  };
  const listening = [["click", keepPress], ["input", keepEdit], ["change", keepEdit]];
  for (const [kind, keep] of listening) addEventListener(kind, keep, true);

  const repeat = () => {
    for (const [kind, keep] of listening) removeEventListener(kind, keep, true);
    for (const [kind, fields] of Object.entries(edited)) for (const field of fields) field.dispatchEvent(new Event(kind, { bubbles: true }));
    pressed?.removeAttribute("aria-busy");
    pressed?.click();
  };
  // After the others' listeners to the same event.
  addEventListener("DOMContentLoaded", () => setTimeout(repeat));
}
