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
