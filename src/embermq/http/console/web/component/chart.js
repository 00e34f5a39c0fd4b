// @ts-check
/** Lines over time, by uPlot: axes with units, a logarithmic scale where a spike would flatten the rest. */

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { clock, number, short } from "../lib/format.js";
import { hasSpike } from "../lib/sample.js";

const HEIGHT = 200;
const COLOURS = ["--glow", "--out", "--good", "--wait"];
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

/** @typedef {{label: string, values: (number | null)[]}} Line */

const dark = matchMedia("(prefers-color-scheme: dark)");

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {Line[]} lines @param {string} unit @param {boolean} isLog @param {number} width */
function options(lines, unit, isLog, width) {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  return {
    width,
    height: HEIGHT,
    legend: { live: true },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { distr: isLog ? 4 : 1, asinh: 1, range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ top) => [0, Math.max(top * 1.1, 1)] } },
    axes: [{ ...axis, space: 70, size: 30, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(clock) }, { ...axis, size: 60, label: unit, labelSize: 20, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
    series: [
      { label: "time", value: (/** @type {any} */ _, /** @type {number | null} */ at) => (at === null ? "now" : clock(at)) },
      ...lines.map(({ label }, at) => ({
        label,
        stroke: colour(COLOURS[at % COLOURS.length]),
        dash: DASHES[at % DASHES.length],
        width: 2,
        points: { show: false },
        // Where the pointer is; without one, the last.
        value: (/** @type {any} */ { data }, /** @type {number | null} */ value, /** @type {number} */ series) => number(value ?? data[series].at(-1) ?? 0),
      })),
    ],
  };
}

/** @param {Line[]} lines */
function inWords(lines) {
  return lines
    .map(({ label, values }) => {
      const known = /** @type {number[]} */ (values.filter((value) => value !== null));
      return `${label}: now ${number(known.at(-1) ?? 0)}, at most ${number(Math.max(0, ...known))}.`;
    })
    .join(" ");
}

/** @param {{title: string, unit: string, times: number[], lines: Line[]}} properties */
export function Chart({ title, unit, times, lines }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [look, setLook] = useState(0);
  const isLog = hasSpike(lines.map(({ values }) => values));
  const data = [times, ...lines.map(({ values }) => values)];
  useEffect(() => {
    const changed = () => setLook((/** @type {number} */ count) => count + 1);
    dark.addEventListener("change", changed);
    return () => dark.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (place.current);
    const uPlot = /** @type {any} */ (globalThis).uPlot;
    plot.current = new uPlot(options(lines, unit, isLog, element.clientWidth), data, element);
    const watch = new ResizeObserver(() => plot.current.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.current.destroy();
    };
  }, [isLog, look, unit, lines.length]);
  useEffect(() => plot.current?.setData(data), [times.at(-1), times.length, times[0]]);
  return html`<figure>
    <figcaption>${title}${isLog && html` <small>logarithmic scale, because of a spike</small>`}</figcaption>
    <div class="chart" ref=${place} role="img" aria-label=${`${title}, ${unit}. ${inWords(lines)}`}></div>
  </figure>`;
}
