// Command palette (Ctrl-K): the server searches, the arrow keys move through the results.
import { $, $$ } from "./dom.js";
import { open } from "./dialogs.js";

const WAIT_MS = 120;
const palette = $("#palette");

if (palette) {
  const input = $("input", palette), list = $("#palette-list");
  const options = () => $$("[role=option]", list);
  let wait = 0, asked = 0;

  const choose = (option) => {
    options().forEach((each) => each.setAttribute("aria-selected", String(each === option)));
    if (!option) { input.removeAttribute("aria-activedescendant"); return; }
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const go = (option) => {
    palette.close();
    if (option.dataset.presses) { $(option.dataset.presses).click(); return; }
    location.href = option.dataset.href;
  };
  const find = async () => {
    const turn = ++asked;
    const response = await fetch(`${palette.dataset.find}?q=${encodeURIComponent(input.value.trim())}`);
    if (!response.ok || turn !== asked) return; // an older response must not replace a newer one
    list.innerHTML = await response.text();
    choose(options()[0]);
  };
  const show = () => { if (palette.open) { palette.close(); return; } open(palette); input.select(); find(); };

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); show(); }
  });
  $$("[data-palette]").forEach((button) => button.addEventListener("click", show));
  input.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(find, WAIT_MS); });
  input.addEventListener("keydown", (event) => {
    const all = options(), at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) { event.preventDefault(); choose(all[(at + step + all.length) % all.length]); }
    if (event.key === "Enter" && all[at]) { event.preventDefault(); go(all[at]); }
  });
  list.addEventListener("click", (event) => { const option = event.target.closest("[role=option]"); if (option) go(option); });
}
