// The shell: the inbox, the keyboard map, and dialogs that an address opens (#open-dlg-override).
import { $, $$, isForPage } from "./dom.js";
import { open } from "./dialogs.js";

const GO_MS = 1500; // between G and the letter

// ---------- inbox ----------
async function fill(inbox, address) {
  const response = await fetch(address, { headers: { Accept: "text/html", "HX-Request": "true" } });
  if (!response.ok || response.redirected) { location.href = address; return; }
  inbox.innerHTML = await response.text();
  inbox.removeAttribute("aria-busy");
  inbox.dispatchEvent(new CustomEvent("hr:fresh", { bubbles: true }));
}

const inbox = $("#inbox");
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-inbox]");
  if (!button || !inbox || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  inbox.togglePopover();
  if (inbox.matches(":popover-open")) fill(inbox, button.href).catch(() => { location.href = button.href; });
});

// ---------- keys ----------
const press = (selector) => { const found = $$(selector).find((each) => each.offsetParent !== null); found?.click(); return Boolean(found); };

function find() {
  const field = $$("[data-find-list], main input[type=search]").find((each) => each.offsetParent !== null);
  if (!field) return press("[data-palette]");
  field.focus();
  field.select();
  return true;
}

const KEYS = {
  "?": () => { open($("#dlg-keys")); return true; },
  "/": find,
  n: () => press("[data-key-new], .page-head .actions .btn-primary"),
  i: () => press("[data-inbox]"),
  t: () => { $("[data-theme-toggle]").click(); return true; },
};
let going = 0;

function go(letter) {
  const link = $(`[data-go="${CSS.escape(letter)}"]`);
  if (link) location.href = link.href;
  return Boolean(link);
}

document.addEventListener("keydown", (event) => {
  if (!isForPage(event)) return;
  const key = event.key.toLowerCase(), isGoing = Date.now() - going < GO_MS;
  going = 0;
  if (key === "g" && !isGoing) { going = Date.now(); return; }
  if (isGoing ? go(key) : KEYS[key]?.()) event.preventDefault();
});

// ---------- a dialog in the address ----------
function openNamed() {
  const dialog = location.hash.startsWith("#open-") ? document.getElementById(location.hash.slice(6)) : null;
  if (dialog instanceof HTMLDialogElement) open(dialog);
}
openNamed();
addEventListener("hashchange", openNamed);
