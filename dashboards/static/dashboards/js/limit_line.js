// The draggable limit line of an endpoint. The server returns the effect of each position.
import { $ } from "./dom.js";

const line = $("#limit-line");
const ASK_MS = 60;

function start() {
  const svg = line.ownerSVGElement, inner = $("svg", line), impact = $("#impact"), over = $("#over-commit");
  const step = Number(line.dataset.step), top = Number(line.getAttribute("aria-valuemax")), origin = Number(line.dataset.now);
  const format = new Intl.NumberFormat("en", { maximumFractionDigits: step < 0.1 ? 2 : step < 1 ? 1 : 0 });
  let asking = false, wanted = null;

  const now = () => Number(line.getAttribute("aria-valuenow"));

  // One request at a time; meanwhile only the latest position is kept.
  async function ask() {
    if (asking) return;
    asking = true;
    while (wanted !== null) {
      const rate = wanted;
      wanted = null;
      const answer = await answerTo(rate);
      if (answer !== null) show(answer);
      await new Promise((done) => { setTimeout(done, ASK_MS); });
    }
    asking = false;
  }

  async function answerTo(rate) {
    const response = await fetch(`${line.dataset.url}&rate=${rate}`, { headers: { Accept: "text/html" } });
    return response.ok ? response.text() : null;
  }

  function show(answer) {
    const parts = new DOMParser().parseFromString(answer, "text/html");
    const bar = parts.getElementById("over");
    if (bar) { over.replaceChildren(bar); }
    impact.replaceChildren(...parts.body.childNodes);
    const sentence = $("#sentence", impact).textContent;
    line.setAttribute("aria-valuetext", `${format.format(now())} ${line.dataset.unit}: ${sentence}`);
  }

  function move(value) {
    const rate = Number(Math.max(step, Math.min(top, Math.round(value / step) * step)).toPrecision(12));
    if (rate === now()) return;
    line.setAttribute("aria-valuenow", String(rate));
    inner.setAttribute("x", `${(100 * rate) / top}%`);
    $(".grip-text", line).textContent = `${format.format(rate)} ${line.dataset.unit}`;
    wanted = rate;
    ask();
  }

  const drag = (event) => {
    const box = svg.getBoundingClientRect();
    move((top * (event.clientX - box.left)) / box.width);
  };
  line.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    line.focus();
    line.setPointerCapture(event.pointerId);
    line.addEventListener("pointermove", drag);
  });
  const drop = () => line.removeEventListener("pointermove", drag);
  line.addEventListener("pointerup", drop);
  line.addEventListener("pointercancel", drop);
  line.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (steps) { event.preventDefault(); move(now() + steps * step * (event.shiftKey ? 10 : 1)); }
    if (event.key === "Home") { event.preventDefault(); move(step); }
    if (event.key === "End") { event.preventDefault(); move(top); }
  });
  impact.addEventListener("click", (event) => { if (event.target.closest("[data-limit-reset]")) move(origin); });
}

if (line) start();
