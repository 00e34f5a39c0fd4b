// @ts-check
/** A graph to move through: dragged, zoomed, walked along its edges with the arrow keys, and kept as SVG. */

import { html, useEffect, useMemo, useRef } from "../vendor/preact-htm.js";
import { number, short } from "../lib/format.js";
import { HEIGHT, WIDTH } from "../lib/graph_layout.js";
import { neighbours } from "../lib/topology.js";

const SCALE_MIN = 0.02, SCALE_MAX = 2.5;
const READABLE = 0.4; // below, names are left out
const MARGIN = 24;
const NAME_MAX = 25;
const LABEL_MAX = 22;

const cut = (/** @type {string} */ text, /** @type {number} */ max) => ([...text].length > max ? [...text].slice(0, max - 1).join("") + "…" : text);

/** @param {import("../lib/topology.js").Node} node */
export function facts({ kind, type, rate, rateOut, ready, consumers }) {
  if (kind === "missing") return "does not exist";
  const going = rate || rateOut ? `${short(rate)}/s` : "";
  if (kind === "exchange") return [type, going].filter(Boolean).join(" · ");
  return [kind === "queue" || kind === "group" ? `${short(ready)} ready` : kind, going, consumers ? `${short(consumers)} consumers` : "no consumer"].filter(Boolean).join(" · ");
}

/** @param {import("../lib/topology.js").Edge} edge @param {Map<string, any>} places */
function curve({ from, to }, places) {
  const [start, end] = [places.get(from), places.get(to)];
  const [sx, sy, tx, ty] = [start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2];
  const bend = Math.max(40, Math.abs(tx - sx) / 2);
  return { d: `M${sx} ${sy}C${sx + bend} ${sy} ${tx - bend} ${ty} ${tx} ${ty}`, x: (sx + tx) / 2, y: (sy + ty) / 2 };
}

/** @param {{edge: import("../lib/topology.js").Edge, places: Map<string, any>, isNear: boolean}} properties */
function Edge({ edge, places, isNear }) {
  const { d, x, y } = curve(edge, places);
  const rate = edge.rate ? `${short(edge.rate)}/s` : "";
  const keys = edge.keys.length > 1 ? `${edge.keys.length} bindings` : cut(edge.keys[0], LABEL_MAX);
  const label = [edge.kind === "binding" ? keys : edge.kind, rate].filter(Boolean).join(" · ");
  return html`<g class=${`edge ${edge.kind} ${edge.rate ? "flows" : ""} ${isNear ? "near" : ""}`}>
    <path d=${d} marker-end="url(#arrow)" />
    ${(isNear || rate || edge.kind !== "binding") && html`<text x=${x} y=${y - 4}>${label}</text>`}
  </g>`;
}

/** @param {{node: import("../lib/topology.js").Node, place: any, isSelected: boolean, select: (id: string) => void, open: (id: string) => void}} properties */
function NodeBox({ node, place, isSelected, select, open }) {
  return html`<g class=${`node ${node.kind} ${node.state} ${isSelected ? "selected" : ""}`} id=${"node-" + node.id} transform=${`translate(${place.x} ${place.y})`}
      role="img" aria-label=${`${node.kind} ${node.name}: ${facts(node)}${node.state === "stuck" ? ", stuck" : ""}`}
      onClick=${() => select(node.id)} onDblClick=${() => open(node.id)}>
    <title>${node.name}</title>
    <rect width=${WIDTH} height=${HEIGHT} rx=${node.kind === "exchange" ? HEIGHT / 2 : 6} />
    <text class="name" x=${node.kind === "exchange" ? 18 : 12} y="19">${cut(node.name, NAME_MAX)}</text>
    <text class="facts" x=${node.kind === "exchange" ? 18 : 12} y="36">${node.state === "stuck" ? "stuck · " : ""}${facts(node)}</text>
  </g>`;
}

/**
 * @param {{
 *   label: string, graph: import("../lib/topology.js").Graph, layout: import("../lib/graph_layout.js").Layout,
 *   selected: string, select: (id: string) => void, open: (id: string) => void, view: {current: any},
 * }} properties  `view`: where the buttons of the page find `fit`, `zoom` and `svg`
 */
export function GraphView({ label, graph, layout, selected, select, open, view }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const camera = useRef({ x: 0, y: 0, scale: 1 });
  const moved = useRef(false);
  const near = useMemo(() => neighbours(graph.edges), [graph]);

  function aim(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ scale) {
    const element = /** @type {HTMLElement} */ (place.current);
    camera.current = { x, y, scale: Math.min(SCALE_MAX, Math.max(SCALE_MIN, scale)) };
    element.querySelector(".camera")?.setAttribute("transform", `translate(${x} ${y}) scale(${camera.current.scale})`);
    element.classList.toggle("far", scale < READABLE);
  }

  function fit() {
    const { clientWidth, clientHeight } = /** @type {HTMLElement} */ (place.current);
    const scale = Math.min((clientWidth - 2 * MARGIN) / Math.max(layout.width, 1), (clientHeight - 2 * MARGIN) / Math.max(layout.height, 1), 1);
    aim((clientWidth - layout.width * scale) / 2, (clientHeight - layout.height * scale) / 2, scale);
  }

  /** By a factor, around a point of the window. @param {number} factor @param {number} [px] @param {number} [py] */
  function zoom(factor, px, py) {
    const { clientWidth, clientHeight } = /** @type {HTMLElement} */ (place.current);
    const { x, y, scale } = camera.current;
    const next = Math.min(SCALE_MAX, Math.max(SCALE_MIN, scale * factor));
    const [cx, cy] = [px ?? clientWidth / 2, py ?? clientHeight / 2];
    aim(cx - ((cx - x) / scale) * next, cy - ((cy - y) / scale) * next, next);
  }

  /** So that a node can be seen. @param {string} id */
  function show(id) {
    const found = layout.places.get(id);
    const { clientWidth, clientHeight } = /** @type {HTMLElement} */ (place.current);
    const { x, y, scale } = camera.current;
    if (!found) return;
    const [left, top] = [found.x * scale + x, found.y * scale + y];
    const isSeen = left >= 0 && top >= 0 && left + WIDTH * scale <= clientWidth && top + HEIGHT * scale <= clientHeight;
    if (!isSeen) aim(clientWidth / 2 - (found.x + WIDTH / 2) * scale, clientHeight / 2 - (found.y + HEIGHT / 2) * scale, scale);
  }

  function go(/** @type {string} */ id) {
    select(id);
    if (camera.current.scale < READABLE) zoom(0.8 / camera.current.scale);
    show(id);
  }

  function onKey(/** @type {KeyboardEvent} */ event) {
    const next = walked(event.key, selected, layout, near);
    if (next) go(next);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else if (event.key === "Enter" && selected) open(selected);
    else if (event.key === "Escape") select("");
    else return;
    event.preventDefault();
  }

  useEffect(fit, [layout]);
  useEffect(() => {
    if (selected) show(selected);
  }, [selected]);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (place.current);
    const resized = new ResizeObserver(() => !moved.current && fit());
    resized.observe(element);
    const ended = pointers(element, aim, camera, zoom, moved);
    return () => {
      resized.disconnect();
      ended();
    };
  }, [layout]);
  view.current = { fit, zoom, svg: () => svgText(/** @type {SVGSVGElement} */ (place.current?.querySelector("svg")), layout) };
  const nodes = [...graph.nodes.values()].filter(({ id }) => layout.places.has(id));
  const edges = graph.edges.filter(({ from, to }) => layout.places.has(from) && layout.places.has(to));
  return html`<div class="graph" ref=${place} tabindex="0" role="application" aria-label=${label} aria-activedescendant=${selected ? "node-" + selected : undefined} onKeyDown=${onKey}>
    <svg width="100%" height="100%">
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0 8 4 0 8z" /></marker></defs>
      <g class="camera">
        ${edges.map((edge) => html`<${Edge} key=${JSON.stringify([edge.from, edge.to, edge.kind])} edge=${edge} places=${layout.places} isNear=${edge.from === selected || edge.to === selected} />`)}
        ${nodes.map((node) => html`<${NodeBox} key=${node.id} node=${node} place=${layout.places.get(node.id)} isSelected=${node.id === selected} select=${select} open=${open} />`)}
      </g>
    </svg>
  </div>`;
}

/** Where an arrow key leads: along the edges, or up and down in the layer; "" for nowhere.
 * @param {string} key @param {string} from @param {import("../lib/graph_layout.js").Layout} layout @param {{after: Map<string, string[]>, before: Map<string, string[]>}} near */
export function walked(key, from, { places }, near) {
  if (!key.startsWith("Arrow")) return "";
  const start = places.get(from);
  if (!start) return places.keys().next().value ?? "";
  if (key === "ArrowRight") return near.after.get(from)?.find((id) => places.has(id)) ?? "";
  if (key === "ArrowLeft") return near.before.get(from)?.find((id) => places.has(id)) ?? "";
  const down = key === "ArrowDown" ? 1 : -1;
  let best = "", distance = Infinity;
  for (const [id, place] of places) {
    const below = (place.y - start.y) * down;
    const away = below + Math.abs(place.x - start.x) * 4;
    if (below > 0 && away < distance) [best, distance] = [id, away];
  }
  return best;
}

/** One pointer drags, two pinch, the wheel zooms. @param {HTMLElement} element @param {(x: number, y: number, scale: number) => void} aim
 * @param {{current: {x: number, y: number, scale: number}}} camera @param {(factor: number, x: number, y: number) => void} zoom @param {{current: boolean}} moved */
function pointers(element, aim, camera, zoom, moved) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  const at = (/** @type {MouseEvent} */ event) => {
    const { left, top } = element.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const spread = () => {
    const [one, other] = [...down.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  };
  const handlers = {
    pointerdown: (/** @type {PointerEvent} */ event) => down.set(event.pointerId, at(event)),
    pointermove: (/** @type {PointerEvent} */ event) => {
      const before = down.get(event.pointerId);
      if (!before) return;
      const now = at(event);
      const wide = down.size === 2 ? spread() : 0;
      down.set(event.pointerId, now);
      moved.current = true;
      if (wide) zoom(spread() / wide, now.x, now.y);
      else aim(camera.current.x + now.x - before.x, camera.current.y + now.y - before.y, camera.current.scale);
    },
    pointerup: (/** @type {PointerEvent} */ event) => down.delete(event.pointerId),
    pointercancel: (/** @type {PointerEvent} */ event) => down.delete(event.pointerId),
    pointerleave: (/** @type {PointerEvent} */ event) => down.delete(event.pointerId),
    wheel: (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      moved.current = true;
      const { x, y } = at(event);
      zoom(Math.exp(-event.deltaY * 0.0015), x, y);
    },
  };
  for (const [name, handler] of Object.entries(handlers)) element.addEventListener(name, /** @type {any} */ (handler), { passive: false });
  return () => {
    for (const [name, handler] of Object.entries(handlers)) element.removeEventListener(name, /** @type {any} */ (handler));
  };
}

/** The picture as a file of its own, in the colours of now. @param {SVGSVGElement} drawn @param {import("../lib/graph_layout.js").Layout} layout */
function svgText(drawn, layout) {
  const copy = /** @type {SVGSVGElement} */ (drawn.cloneNode(true));
  const colour = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = `svg{background:${colour("--paper")};font:13px system-ui,sans-serif}
.node rect{fill:${colour("--card")};stroke:${colour("--edge")};stroke-width:1.2}.node text{fill:${colour("--ink")}}.node .facts{fill:${colour("--soft")};font-size:11px}
.node.exchange rect{stroke:${colour("--ember")}}.node.hot rect{stroke:${colour("--glow")};stroke-width:3}.node.stuck rect{stroke:${colour("--bad")};stroke-width:3}
.edge path{fill:none;stroke:${colour("--edge")};stroke-width:1.2}.edge.flows path{stroke:${colour("--glow")};stroke-width:2.2}
.edge.dead-letter path,.edge.alternate path{stroke-dasharray:5 4}.edge text{fill:${colour("--soft")};font-size:10px;text-anchor:middle}.head{fill:${colour("--edge")}}`;
  copy.prepend(style);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${layout.width + 2 * MARGIN} ${layout.height + 2 * MARGIN}`);
  copy.setAttribute("width", String(layout.width + 2 * MARGIN));
  copy.setAttribute("height", String(layout.height + 2 * MARGIN));
  copy.querySelector(".camera")?.removeAttribute("transform");
  return new XMLSerializer().serializeToString(copy);
}
