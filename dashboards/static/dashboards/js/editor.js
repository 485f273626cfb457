// The limit editor in the inspector, of the matrix and of a policy's page.
import { $, $$ } from "./dom.js";

// Only the parameters of the chosen algorithm are shown and sent.
function showParameters(inspector) {
  const algorithm = $("#id_algorithm", inspector)?.value;
  for (const input of $$("[data-algorithms]", inspector)) {
    const isTaken = input.dataset.algorithms.split(" ").includes(algorithm);
    input.closest(".field").hidden = !isTaken;
    input.disabled = !isTaken;
  }
}

// `load`: called with the name of another limit to edit; `leave`: closes the editor; `loaded`: after each swap.
export function editor(inspector, { load, leave, loaded }) {
  inspector.addEventListener("change", (event) => {
    if (event.target.id === "id_algorithm") showParameters(inspector);
    if (event.target.id === "id_limit_name") load(event.target.value);
  });
  inspector.addEventListener("click", (event) => {
    if (event.target.closest("[data-inspector-close]")) leave();
  });
  inspector.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== inspector) return;
    showParameters(inspector);
    loaded();
    // The button that was pressed is gone: the keyboard goes on at what came of it.
    $(".inspector-done h2", inspector)?.focus();
  });
}
