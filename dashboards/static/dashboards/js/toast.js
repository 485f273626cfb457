// A short message in the corner. Errors are also shown where they occurred.
import { $, el, icon, onFresh } from "./dom.js";

const SHOWN_MS = 6000;

export function toast(text, detail = "", kind = "ok") {
  const words = el("p", { class: "grow" }, text);
  if (detail) words.append(el("small", {}, detail));
  const box = el("div", { class: kind === "ok" ? "toast" : "toast err" }, icon(kind === "ok" ? "ok" : "alert"), words);
  $(".toasts").append(box);
  setTimeout(() => box.remove(), SHOWN_MS);
}

// Django messages come with the page.
onFresh((root) => {
  for (const said of root.querySelectorAll("[data-toast-now]")) {
    const [head, detail] = said.textContent.split("|");
    toast(head, detail, said.dataset.toastNow);
    said.remove();
  }
});
// htmx responses may send one in a header: HX-Trigger: {"hr:toast": {"text": …}}
document.addEventListener("hr:toast", (event) => toast(event.detail.text, event.detail.detail, event.detail.kind));
// A part of a page that could not be loaded or saved says why, and what was typed stays.
const STATUS_WORDS = { 401: "You are signed out", 403: "Your role may not do this", 404: "It is no longer there", 429: "Too many requests" };

function reason(request) {
  try { return JSON.parse(request.responseText).detail ?? ""; } catch { return ""; }
}
let isSignedOut = false;  // told once to parts that load themselves again and again

document.addEventListener("htmx:responseError", ({ detail: { xhr, requestConfig } }) => {
  if (xhr.status === 401 && isSignedOut && requestConfig.verb === "get") return;
  isSignedOut = xhr.status === 401;
  toast(STATUS_WORDS[xhr.status] ?? "The server did not do this", reason(xhr) || "Nothing was changed. Try again.", "err");
});
document.addEventListener("htmx:sendError", () => toast("The server cannot be reached", "What you typed is kept. Try again.", "err"));
