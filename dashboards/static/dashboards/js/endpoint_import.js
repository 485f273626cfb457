// The list of operations of a document: filter by state, tick all that are shown, count what is ticked.
import { $, $$ } from "./dom.js";

const form = $("#import");
const rows = () => $$("tbody tr[data-state]", form);
const box = (row) => $("input[name=pick]", row);
const all = $("[data-pick-all]", form);

function count() {
  const ticked = rows().filter((row) => box(row).checked);
  const of = (state) => ticked.filter((row) => row.dataset.state === state).length.toLocaleString("en");
  if ($("#picked")) {
    $("#picked").textContent = ticked.length.toLocaleString("en");
    $("#picked-new").textContent = of("new");
    $("#picked-different").textContent = of("different");
  }
  const open = rows().filter((row) => !row.hidden && !box(row).disabled);
  all.checked = open.length > 0 && open.every((row) => box(row).checked);
  all.indeterminate = !all.checked && open.some((row) => box(row).checked);
  rows().forEach((row) => row.classList.toggle("is-selected", box(row).checked));
}

if (all) {
  form.addEventListener("change", (event) => {
    if (event.target.name === "only") {
      rows().forEach((row) => { row.hidden = event.target.value !== "" && row.dataset.state !== event.target.value; });
    }
    if (event.target === all) {
      rows().filter((row) => !row.hidden && !box(row).disabled).forEach((row) => { box(row).checked = all.checked; });
    }
    count();
  });
  count();
}

// Reading or writing thousands of operations takes some seconds.
form.addEventListener("submit", (event) => {
  const said = $("#import-busy", form);
  if (said && event.submitter?.value === "register") said.textContent = `Registering ${$("#picked").textContent} endpoints …`;
});
