// @ts-check
/** Addresses of pages: `#/queues/%2F/orders?sort=messages`. What a page shows is in its address. */

import { encoded } from "./api.js";
import { signal } from "./signal.js";

/** @typedef {{steps: string[], query: Record<string, string>}} Route */

/** @param {string} hash @returns {Route} */
export function parseHash(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const steps = path.split("/").map(decoded);
  return { steps: steps[0] === "" ? [] : steps, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string[]} steps @param {Record<string, string | number | undefined>} [query] */
export function hashOf(steps, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return "#/" + steps.map(encoded).join("/") + (text && "?" + text);
}

/**
 * The names in an address, where it is one of this form: `queues/{vhost}/{name}`.
 * @param {string} form @param {string[]} steps @returns {Record<string, string> | null}
 */
export function matched(form, steps) {
  const wanted = form ? form.split("/") : [];
  if (wanted.length !== steps.length) return null;
  /** @type {Record<string, string>} */
  const names = {};
  for (const [at, word] of wanted.entries()) {
    if (word.startsWith("{")) names[word.slice(1, -1)] = steps[at];
    else if (word !== steps[at]) return null;
  }
  return names;
}

/** @param {string} step */
function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

export const route = signal(parseHash(globalThis.location?.hash ?? ""));
globalThis.addEventListener?.("hashchange", () => route.set(parseHash(location.hash)));

/** The same page with other settings; no new entry in the history.
 * @param {Record<string, string | number | undefined>} changes */
export function changeQuery(changes) {
  const { steps, query } = route.get();
  history.replaceState(null, "", hashOf(steps, { ...query, ...changes }));
  route.set(parseHash(location.hash));
}

/** @param {string[]} steps */
export function go(...steps) {
  location.hash = hashOf(steps);
}
