// @ts-check
/** Layered layout of a graph, left to right (Sugiyama's): layers by the longest way, order by barycentres.
 *
 * Parts that no edge joins are laid out by themselves and put into rows. A layer with very many nodes has several columns,
 * so that thousands of queues at one exchange are a block and not a ribbon. 2,000 nodes take some milliseconds.
 */

import { neighbours } from "./topology.js";

export const WIDTH = 190;
export const HEIGHT = 46;
const BESIDE = 110; // between layers
const BELOW = 14;
const COLUMN = 16; // between the columns of one layer
const PART = 40; // between parts
const SWEEPS = 6;
const SHAPE = 1.7; // width by height of the whole

/** @typedef {{x: number, y: number, layer: number}} Place */
/** @typedef {{places: Map<string, Place>, width: number, height: number}} Layout */

/** @param {string[]} ids @param {Map<string, string[]>} after @param {Map<string, string[]>} before @returns {string[][]} */
function parts(ids, after, before) {
  const seen = new Set();
  const found = [];
  for (const id of ids) {
    if (seen.has(id)) continue;
    const part = [id];
    seen.add(id);
    for (const member of part) {
      for (const next of [...(after.get(member) ?? []), ...(before.get(member) ?? [])]) {
        if (!seen.has(next)) part.push(next);
        seen.add(next);
      }
    }
    found.push(part);
  }
  return found;
}

/** The layer of each node: behind all that lead to it; edges that close a circle do not count.
 * @param {string[]} part @param {Map<string, string[]>} after @param {Map<string, string[]>} before */
function layersOf(part, after, before) {
  /** @type {Map<string, number>} */
  const layer = new Map();
  const state = new Map();
  /** @type {string[]} */
  const order = [];
  const starts = [...part.filter((id) => !before.has(id)), ...part];
  for (const start of starts) {
    const stack = state.has(start) ? [] : [{ id: start, at: 0 }];
    state.set(start, state.get(start) ?? 1);
    while (stack.length) {
      const top = stack[stack.length - 1];
      const next = (after.get(top.id) ?? [])[top.at++];
      if (next === undefined) {
        state.set(top.id, 2);
        order.push(top.id);
        stack.pop();
      } else if (!state.has(next)) {
        state.set(next, 1);
        stack.push({ id: next, at: 0 });
      }
    }
  }
  const place = new Map(order.reverse().map((id, at) => [id, at]));
  for (const id of order) {
    const from = (before.get(id) ?? []).filter((other) => Number(place.get(other)) < Number(place.get(id)));
    layer.set(id, Math.max(0, ...from.map((other) => Number(layer.get(other)) + 1)));
  }
  /** @type {string[][]} */
  const layers = [];
  for (const id of order) (layers[Number(layer.get(id))] ??= []).push(id);
  return layers;
}

/** Fewer crossings: each node near the middle of its neighbours. @param {string[][]} layers @param {Map<string, string[]>} after @param {Map<string, string[]>} before */
function ordered(layers, after, before) {
  const at = new Map();
  const note = (/** @type {string[]} */ layer) => layer.forEach((id, index) => at.set(id, (index + 0.5) / layer.length));
  layers.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const ways = forward ? before : after;
    for (const layer of forward ? layers : [...layers].reverse()) {
      const middle = new Map(layer.map((id) => {
        const near = ways.get(id) ?? [];
        return [id, near.length ? near.reduce((sum, other) => sum + at.get(other), 0) / near.length : at.get(id)];
      }));
      layer.sort((one, other) => middle.get(one) - middle.get(other));
      note(layer);
    }
  }
}

/** @param {string[][]} layers @param {number} rowsMax @returns {Layout} */
function placed(layers, rowsMax) {
  const places = new Map();
  const step = HEIGHT + BELOW;
  const rows = Math.min(rowsMax, Math.max(...layers.map(({ length }) => length)));
  const height = rows * step - BELOW;
  let x = 0;
  layers.forEach((layer, number) => {
    const columns = Math.ceil(layer.length / rowsMax);
    const inColumn = Math.ceil(layer.length / columns);
    layer.forEach((id, index) => {
      const column = Math.floor(index / inColumn);
      const count = Math.min(inColumn, layer.length - column * inColumn);
      const top = (height - (count * step - BELOW)) / 2;
      places.set(id, { x: x + column * (WIDTH + COLUMN), y: top + (index % inColumn) * step, layer: number });
    });
    x += columns * (WIDTH + COLUMN) - COLUMN + BESIDE;
  });
  return { places, width: x - BESIDE, height };
}

/** @param {import("./topology.js").Graph} graph @returns {Layout} */
export function layoutOf({ nodes, edges }) {
  const { after, before } = neighbours(edges.filter(({ from, to }) => from !== to));
  const rowsMax = Math.max(8, Math.ceil(Math.sqrt(nodes.size) * 1.2));
  const laid = parts([...nodes.keys()], after, before).map((part) => {
    const layers = layersOf(part, after, before);
    ordered(layers, after, before);
    return placed(layers, rowsMax);
  });
  laid.sort((one, other) => other.places.size - one.places.size || other.height - one.height);
  const area = laid.reduce((sum, { width, height }) => sum + (width + PART) * (height + PART), 0);
  const rowWidth = Math.max(...laid.map(({ width }) => width), Math.sqrt(area * SHAPE), 0);
  return inRows(laid, rowWidth);
}

/** @param {Layout[]} laid @param {number} rowWidth @returns {Layout} */
function inRows(laid, rowWidth) {
  const places = new Map();
  let x = 0, y = 0, rowHeight = 0, width = 0;
  for (const part of laid) {
    if (x > 0 && x + part.width > rowWidth) {
      x = 0;
      y += rowHeight + PART;
      rowHeight = 0;
    }
    for (const [id, place] of part.places) places.set(id, { ...place, x: place.x + x, y: place.y + y });
    x += part.width + PART;
    rowHeight = Math.max(rowHeight, part.height);
    width = Math.max(width, x - PART);
  }
  return { places, width, height: y + rowHeight };
}
