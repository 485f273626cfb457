// A short message in the corner. Never the only trace of an error: that stands where it happened.
import { $, el, icon, onFresh } from "./dom.js";

const SHOWN_MS = 6000;

export function toast(text, detail = "", kind = "ok") {
  const words = el("p", { class: "grow" }, text);
  if (detail) words.append(el("small", {}, detail));
  const box = el("div", { class: kind === "ok" ? "toast" : "toast err" }, icon(kind === "ok" ? "ok" : "alert"), words);
  $(".toasts").append(box);
  setTimeout(() => box.remove(), SHOWN_MS);
}

// What the server has to say comes with the page, as Django's messages.
onFresh((root) => {
  for (const said of root.querySelectorAll("[data-toast-now]")) {
    const [head, detail] = said.textContent.split("|");
    toast(head, detail, said.dataset.toastNow);
    said.remove();
  }
});
// htmx answers may bring one in a header: HX-Trigger: {"hr:toast": {"text": …}}
document.addEventListener("hr:toast", (event) => toast(event.detail.text, event.detail.detail, event.detail.kind));
