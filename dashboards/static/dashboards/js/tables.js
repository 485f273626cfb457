// Clicking a column head sorts the rows on the page. Paged lists are sorted by the server.
import { $$ } from "./dom.js";

const value = (cell) => cell.dataset.v ?? cell.textContent.trim();

function compared(a, b) {
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.sort");
  if (!button) return;
  const head = button.closest("th"), table = button.closest("table"), column = head.cellIndex;
  const isDown = head.getAttribute("aria-sort") !== "descending";
  $$("th[aria-sort]", table).forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => (isDown ? -1 : 1) * compared(value(a.cells[column]), value(b.cells[column])));
  table.tBodies[0].append(...rows);
});
