// Click handlers for data attributes: dialogs, popovers, copy buttons and the theme.
import { $, $$, onFresh } from "./dom.js";
import { toast } from "./toast.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
const announceTheme = () => document.dispatchEvent(new CustomEvent("hr:theme"));
system.addEventListener("change", announceTheme);

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("hr-theme", root.dataset.theme); } catch { /* storage is not available */ }
  announceTheme();
}

export function open(dialog) {
  if (dialog.open) return;
  dialog.showModal();
  $$("[autofocus], [aria-invalid=true], input:not([type=hidden]), textarea, select", dialog).find((each) => each.checkVisibility())?.focus();
}

async function copy(button) {
  const source = button.dataset.copy ? $(button.dataset.copy) : $("pre", button.closest(".code"));
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    toast("Copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    toast("Selected", "Press Ctrl C to copy");
  }
}

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button, a, [data-close]");
  if (!pressed) {
    if (event.target instanceof HTMLDialogElement) event.target.close();
    return;
  }
  if (pressed.matches("[data-theme-toggle]")) switchTheme();
  if (pressed.dataset.open) { event.preventDefault(); open(document.getElementById(pressed.dataset.open)); }
  // On a page of its own, a form's Cancel is a plain link.
  const around = pressed.matches("[data-close]") && pressed.closest("dialog");
  if (around) { event.preventDefault(); around.close(); }
  if (pressed.matches("[data-dismiss]")) pressed.closest(".banner").hidden = true;
  if (pressed.matches("[data-copy]")) copy(pressed);
});

// Shows that a form is being sent, and prevents sending it twice.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button || event.target.hasAttribute("hx-post") || event.target.method !== "post") return;
  if (button.getAttribute("aria-busy") === "true") { event.preventDefault(); return; }
  button.setAttribute("aria-busy", "true");
});
// A control that submits its form when it changes.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});
// A form that was refused starts at what has to be changed.
$("main [aria-invalid=true]")?.focus();
// A dialog whose form had errors opens again with the input.
onFresh((part) => part.querySelectorAll("dialog[data-open-now]").forEach(open));

// The button of a form that asks for several consents stays off until each of them is given.
function gateSubmit(form) {
  const button = $("[type=submit]", form);
  if (button) button.disabled = !form.checkValidity();
}
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form && form.matches("[data-until-valid]")) gateSubmit(form);
});
onFresh((part) => part.querySelectorAll("form[data-until-valid]").forEach(gateSubmit));
