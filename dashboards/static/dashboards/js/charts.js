// Draws every figure from the rows of its own table, so that chart, tooltip and table always agree.
//
// <figure class="fig" data-chart="time|number|log|category" [data-zoom] [data-x-unit]>
//   .chart[data-panel][data-y="log|mirror"][data-top]   one canvas each; all share the x axis. mirror: negative
//                                         values are labelled without their sign; top: the end of a shared scale
//   .fig-table th[data-draw][data-color][data-panel], tr[data-x] > td[data-v]
//   .fig-marks li[data-kind=gap|band|limit|mark][data-from][data-to][data-at][data-panel][data-held-from][data-held-to]
//                                         held: the part of the x axis on which a limit or a band holds
/* global uPlot */
import { $, $$, el } from "./dom.js";
import { visit } from "./live.js";
import { written } from "./times.js";

const AXIS_WIDTH = 50, AXIS_HEIGHT = 26, HEADROOM = 22;
const LEFT = 8, RIGHT = 22; // RIGHT: half of the last label on the x axis
const DAY = 86400;
const charts = new Map(); // figure → its uPlots

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const amount = (value) => (Math.abs(value) >= 10000 ? compact : numbers).format(value);

function tokens(figure) {
  const style = getComputedStyle(figure);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function colourOf(token, name) {
  return token(/^\d$/.test(name) ? `c-${name}` : { ref: "reference", text: "text", faint: "line-strong" }[name] ?? name);
}

function faded(hex, alpha) {
  const parts = /^#(..)(..)(..)$/.exec(hex);
  return parts ? `rgb(${parts.slice(1).map((part) => parseInt(part, 16)).join(" ")} / ${alpha})` : hex;
}

// ---------- reading the table ----------
const numberOf = (text) => (text === undefined || text === "" ? null : Number(text));

function read(figure) {
  const rows = $$(".fig-table tr[data-x]", figure).sort((a, b) => a.dataset.x - b.dataset.x);
  const heads = $$(".fig-table table:not(.fig-events) thead th", figure);
  const columns = heads.map((head, index) => ({ head, index })).filter(({ head }) => head.dataset.draw).map(({ head, index }) => ({
    ...head.dataset, panel: Number(head.dataset.panel ?? 0), name: head.textContent.trim(),
    values: rows.map((row) => numberOf(row.cells[index].dataset.v)),
  }));
  const extras = $$(".fig-marks li", figure).map((item) => ({
    kind: item.dataset.kind, label: item.textContent.trim(), href: item.dataset.href, color: item.dataset.color ?? "brand",
    panel: Number(item.dataset.panel ?? 0), at: numberOf(item.dataset.at), from: numberOf(item.dataset.from), to: numberOf(item.dataset.to),
    since: numberOf(item.dataset.heldFrom), until: numberOf(item.dataset.heldTo), words: item.dataset.words ?? "",
  }));
  return { rows, heads, columns, extras, xs: rows.map((row) => Number(row.dataset.x)) };
}

function span(facts, figure) {
  const body = $(".fig-table", figure).dataset;
  const first = numberOf(body.from) ?? facts.xs[0] ?? 0, last = numberOf(body.to) ?? facts.xs.at(-1) ?? 1;
  return figure.dataset.chart === "category" ? [-0.5, facts.xs.length - 0.5] : [first, last > first ? last : first + 1];
}

// ---------- scales ----------
function niceTop(largest) {
  if (!(largest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= largest * 1.02) * power || largest;
}

function heights(facts, panel) {
  const own = facts.columns.filter((column) => column.panel === panel).flatMap((column) => column.values);
  const lines = facts.extras.filter((extra) => extra.panel === panel && extra.kind !== "gap" && extra.kind !== "mark");
  const all = [...own, ...lines.flatMap((line) => [line.at, line.to])].filter((value) => value !== null && Number.isFinite(value));
  const largest = Math.max(0, ...all), least = Math.min(0, ...all);
  return [least < 0 ? -niceTop(-least) : 0, niceTop(largest || (least < 0 ? 0 : 1))];
}

function fixedHeights({ top, y }) {
  return [y === "mirror" ? -Number(top) : 0, Number(top)];
}

function logHeights(facts, panel) {
  const all = facts.columns.filter((column) => column.panel === panel).flatMap((column) => column.values).filter((value) => value > 0);
  return all.length ? [10 ** Math.floor(Math.log10(Math.min(...all))), 10 ** Math.ceil(Math.log10(Math.max(...all)) + 1e-9)] : [1, 10];
}

function timeTexts(splits, step) {
  if (step >= DAY) return splits.map((at) => written(new Date(at * 1000), "day").replace(/ \d{4}$/, ""));
  return splits.map((at) => (step < 60 ? written(new Date(at * 1000), "seconds").split(" ").at(-1) : written(new Date(at * 1000), "clock")));
}

// ---------- gaps, bands, limits and marks ----------
function hatch(context, token, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6 * ratio;
  const pen = tile.getContext("2d");
  pen.fillStyle = faded(token("gap"), 0.35);
  pen.fillRect(0, 0, tile.width, tile.height);
  pen.strokeStyle = faded(token("text-3"), 0.45);
  pen.lineWidth = ratio;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo((shift - 1) * ratio, 7 * ratio); pen.lineTo((shift + 7) * ratio, -ratio); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function under(plot, facts, token, panel) {
  const { ctx, bbox } = plot, at = (value, scale) => plot.valToPos(value, scale, true);
  ctx.save();
  for (const gap of facts.extras.filter((extra) => extra.kind === "gap")) {
    const left = Math.max(at(gap.from, "x"), bbox.left), right = Math.min(at(gap.to, "x"), bbox.left + bbox.width);
    ctx.fillStyle = hatch(ctx, token, devicePixelRatio);
    if (right >= left) ctx.fillRect(left, bbox.top, Math.max(right - left, 2 * devicePixelRatio), bbox.height);
  }
  for (const band of facts.extras.filter((extra) => extra.kind === "band" && extra.panel === panel)) {
    const top = Math.max(at(band.to, "y"), bbox.top), bottom = at(band.from, "y"), [left, right] = stretch(plot, band);
    if (right <= left) continue;
    ctx.fillStyle = faded(colourOf(token, band.color), token("band-alpha"));
    ctx.fillRect(left, top, right - left, bottom - top);
    line(plot, token, colourOf(token, band.color), at(band.to, "y"), 1.1, [5, 3], band, "text-2", "right");
  }
  ctx.restore();
}

// The ends of a limit or a band in pixels, within the plot.
function stretch(plot, extra) {
  const { bbox } = plot, place = (value, edge) => (value === null ? edge : plot.valToPos(value, "x", true));
  return [Math.max(place(extra.since, bbox.left), bbox.left), Math.min(place(extra.until, bbox.left + bbox.width), bbox.left + bbox.width)];
}

function line(plot, token, colour, y, width, dash, extra, words, side = "left") {
  const { ctx } = plot, ratio = devicePixelRatio, [left, right] = stretch(plot, extra);
  if (right <= left) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width * ratio;
  ctx.setLineDash(dash.map((part) => part * ratio));
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(right, y);
  ctx.stroke();
  ctx.setLineDash([]);
  // A step that is shorter than its words has them in the list beside the table only.
  ctx.font = `500 ${11 * ratio}px ${token("font-sans")}`;
  if (ctx.measureText(extra.label).width + 12 * ratio > right - left) return;
  text(plot, token, extra.label, side === "left" ? left + 6 * ratio : right - 6 * ratio, y - 5 * ratio, words, side);
}

function text(plot, token, words, x, y, colour, align = "left") {
  const { ctx } = plot;
  ctx.font = `500 ${11 * devicePixelRatio}px ${token("font-sans")}`;
  ctx.textAlign = align;
  ctx.textBaseline = "alphabetic";
  ctx.lineWidth = 3 * devicePixelRatio;
  ctx.lineJoin = "round";
  ctx.strokeStyle = token("surface");
  ctx.strokeText(words, x, y);
  ctx.fillStyle = token(colour);
  ctx.fillText(words, x, y);
}

function over(plot, facts, token, panel) {
  const { ctx, bbox } = plot;
  ctx.save();
  const limits = facts.extras.filter((extra) => extra.kind === "limit" && extra.panel === panel);
  for (const limit of limits) {
    line(plot, token, colourOf(token, limit.color), plot.valToPos(limit.at, "y", true), 2, [], limit, "text");
    riser(plot, token, limit, limits.find((next) => next.since !== null && next.since === limit.until));
  }
  for (const mark of facts.extras.filter((extra) => extra.kind === "mark")) {
    const x = plot.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = token("text-3");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// From one step of a limit to the next.
function riser(plot, token, limit, next) {
  if (!next) return;
  const { ctx, bbox } = plot, x = plot.valToPos(next.since, "x", true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.strokeStyle = colourOf(token, limit.color);
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, plot.valToPos(limit.at, "y", true));
  ctx.lineTo(x, plot.valToPos(next.at, "y", true));
  ctx.stroke();
}

function flags(plot, facts) {
  $$(".chart-flag", plot.over).forEach((flag) => flag.remove());
  const marks = facts.extras.filter((extra) => extra.kind === "mark").sort((a, b) => a.at - b.at);
  let free = -Infinity, last = null;
  for (const mark of marks) {
    const x = plot.valToPos(mark.at, "x");
    if (x < 0 || x > plot.over.clientWidth) continue;
    // Flags that would overlap share one, which names the first and the last of them.
    if (last && x - last.half < free) { join(plot, last, mark); free = last.middle + last.half + 2; continue; }
    last = hoist(plot, mark, x);
    if (last.middle - last.half < free) { last.flag.remove(); last = null; continue; }
    free = last.middle + last.half + 2;
  }
}

function hoist(plot, mark, x) {
  const about = mark.words ? `${mark.label}: ${mark.words}` : mark.label;
  const attributes = { class: "chart-flag", title: about, ...(mark.href ? { href: mark.href } : { role: "note", tabindex: "0" }) };
  const flag = el(mark.href ? "a" : "span", attributes, mark.label);
  flag.addEventListener("mousedown", (event) => event.stopPropagation());
  plot.over.append(flag);
  return placed(plot, { flag, x, first: mark.label, about: [about] });
}

function join(plot, held, mark) {
  held.about.push(mark.words ? `${mark.label}: ${mark.words}` : mark.label);
  held.flag.textContent = `${held.first} … ${mark.label}`;
  held.flag.title = held.about.join("\n");
  if (mark.href && held.flag.href) held.flag.href = mark.href;
  placed(plot, held);
}

// Near an edge the flag moves beside its line to stay inside the card.
function placed(plot, held) {
  held.half = held.flag.offsetWidth / 2;
  held.middle = Math.max(held.half, Math.min(held.x, plot.over.clientWidth + RIGHT - held.half - 2));
  held.flag.style.left = `${held.middle}px`;
  return held;
}

// ---------- series ----------
const DASHES = { dash: [5, 3], dots: [1.5, 3] };

function series(column, token, kind) {
  const colour = colourOf(token, column.color);
  const base = { label: column.name, stroke: colour, width: column.color === "ref" ? 1.1 : 1.6, points: { show: false }, spanGaps: kind !== "time" }; // only a time axis has gaps
  if (column.draw === "area") return { ...base, fill: faded(colour, token("fill-alpha")) };
  if (column.draw === "step") return { ...base, fill: faded(colour, token("fill-alpha")), paths: uPlot.paths.stepped({ align: 1 }) };
  if (column.draw === "bars") return { ...base, fill: faded(colour, 0.6), width: 0, paths: uPlot.paths.bars({ size: [0.72, 44] }) };
  if (column.draw === "points") return { ...base, paths: () => null, points: { show: true, size: 6, fill: faded(colour, 0.7), width: 0 } };
  return { ...base, dash: DASHES[column.draw] };
}

// The names of categories, without those that would touch the one before: the tip has them all.
function roomy(names, width) {
  const LETTER = 6, GAP = 6, step = width / names.length;
  let free = -Infinity;
  return names.map((name, index) => {
    const half = (name.length * LETTER) / 2, middle = (index + 0.5) * step;
    if (middle - half < free) return "";
    free = middle + half + GAP;
    return name;
  });
}

function options(figure, facts, box, panel, isLast) {
  const token = tokens(figure), kind = figure.dataset.chart, ends = span(facts, figure);
  const isMirror = box.dataset.y === "mirror", unit = figure.dataset.xUnit ? `\u00a0${figure.dataset.xUnit}` : "";
  const isLog = box.dataset.y === "log", font = `11px ${token("font-sans")}`;
  const axis = { stroke: token("text-3"), font, ticks: { show: false } };
  return {
    width: box.clientWidth, height: box.clientHeight, padding: [panel === 0 ? HEADROOM : 10, RIGHT, isLast ? 0 : 6, LEFT],
    legend: { show: false },
    cursor: { y: false, sync: { key: figure.id, setSeries: false }, drag: { x: kind !== "category", y: false, setScale: false }, points: { size: 7 } },
    scales: {
      x: { time: kind === "time", distr: kind === "log" ? 3 : 1, range: () => ends },
      y: { distr: isLog ? 3 : 1, range: () => (isLog ? logHeights(facts, panel) : box.dataset.top ? fixedHeights(box.dataset) : heights(facts, panel)) },
    },
    axes: [
      {
        ...axis, show: isLast, size: AXIS_HEIGHT, gap: 6, grid: { show: false },
        ...(kind === "time" ? { values: (_, splits, __, ___, step) => timeTexts(splits, step) } : {}),
        ...(kind === "category" ? { splits: () => facts.xs.map((_, index) => index), values: (plot) => roomy(facts.rows.map((row) => row.dataset.label ?? row.cells[0].textContent.trim()), plot.bbox.width / devicePixelRatio) } : {}),
        ...(kind === "number" || kind === "log" ? { values: (_, splits) => splits.map((value) => (value === null ? "" : `${amount(value)}${unit}`)) } : {}),
      },
      { ...axis, size: AXIS_WIDTH, gap: 8, space: 34, grid: { stroke: token("grid"), width: 1 }, values: (_, splits) => splits.map((value) => (value === null ? "" : amount(isMirror ? Math.abs(value) : value))) },
    ],
    series: [{}, ...facts.columns.filter((column) => column.panel === panel).map((column) => series(column, token, kind))],
    hooks: {
      drawAxes: [(plot) => under(plot, figure.hr.facts, tokens(figure), panel)],
      draw: [(plot) => { over(plot, figure.hr.facts, tokens(figure), panel); if (panel === 0) flags(plot, figure.hr.facts); }],
      setCursor: [(plot) => tip(figure, plot)],
      setSelect: [(plot) => zoom(figure, plot)],
    },
  };
}

const data = (facts, panel, kind) => [kind === "category" ? facts.xs.map((_, index) => index) : facts.xs, ...facts.columns.filter((column) => column.panel === panel).map((column) => column.values)];

// ---------- pointer ----------
function tip(figure, plot) {
  const { facts, tip: box } = figure.hr, { idx, left } = plot.cursor;
  if (idx === null || idx === undefined || left < 0) { box.hidden = true; return; }
  if (!plot.over.matches(":hover")) return; // synchronised cursors: only the hovered panel writes the tooltip
  const row = facts.rows[idx];
  const lines = facts.heads.slice(1).map((head, index) => el("div", {}, el("span", {}, head.textContent), el("span", {}, cellText(row.cells[index + 1], head))));
  box.replaceChildren(el("b", {}, row.cells[0].textContent), ...lines);
  box.hidden = false;
  const area = $(".fig-plots", figure).getBoundingClientRect(), from = plot.over.getBoundingClientRect().left - area.left + left;
  const isRight = from + 16 + box.offsetWidth > area.width;
  box.style.left = `${Math.max(0, isRight ? from - box.offsetWidth - 14 : from + 14)}px`;
  box.style.top = "30px";
}

function cellText(cell, head) {
  const words = cell.textContent.trim(), unit = head.dataset.unit ?? "";
  return cell.dataset.v === undefined || !unit ? words : `${words}\u00a0${unit}`;
}

function zoom(figure, plot) {
  const { left, width } = plot.select;
  if (width < 6) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  const from = plot.posToVal(left, "x"), to = plot.posToVal(left + width, "x");
  if (figure.dataset.zoom === undefined) { figure.hr.plots.forEach((each) => { each.scales.x.range = () => [from, to]; each.setData(each.data, true); }); return; }
  const url = new URL(location.href);
  url.searchParams.set("from", Math.floor(from));
  url.searchParams.set("to", Math.ceil(to));
  url.searchParams.delete("span");
  visit(url);
}

function unzoom(figure) {
  const url = new URL(location.href);
  if (figure.dataset.zoom !== undefined && url.searchParams.has("from")) {
    url.searchParams.delete("from");
    url.searchParams.delete("to");
    visit(url);
  } else draw(figure);
}

// ---------- drawing and redrawing ----------
function draw(figure) {
  figure.hr?.plots.forEach((plot) => plot.destroy());
  const facts = read(figure), boxes = $$(".chart", figure);
  const box = figure.hr?.tip ?? el("div", { class: "tip", hidden: "" });
  $(".fig-plots", figure).append(box);
  box.hidden = true;
  figure.hr = { facts, tip: box, plots: [] };
  charts.set(figure, figure.hr);
  if (!facts.rows.length) return;
  boxes.forEach((place, index) => {
    if (!place.clientWidth) return;
    const panel = Number(place.dataset.panel);
    const plot = new uPlot(options(figure, facts, place, panel, index === boxes.length - 1), data(facts, panel, figure.dataset.chart), place);
    plot.over.addEventListener("dblclick", () => unzoom(figure));
    figure.hr.plots.push(plot);
  });
}

const watcher = new ResizeObserver((entries) => {
  for (const figure of new Set(entries.map((entry) => entry.target.closest("figure")))) draw(figure);
});

function begin(root) {
  // A live refresh replaces the table only; htmx may replace a whole figure.
  const own = root instanceof Element ? root.closest("figure[data-chart]") : null;
  if (own) draw(own);
  for (const figure of $$("figure[data-chart]", root)) {
    if (charts.has(figure)) { draw(figure); continue; }
    $$(".chart", figure).forEach((box) => watcher.observe(box));
  }
}

begin(document);
document.addEventListener("hr:fresh", (event) => begin(event.target));
document.addEventListener("htmx:afterSwap", (event) => begin(event.detail.target));
document.addEventListener("hr:theme", () => charts.forEach((_, figure) => draw(figure)));
