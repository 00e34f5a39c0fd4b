// @ts-check
/** A value that tells when it changes. */

import { useEffect, useState } from "../vendor/preact-htm.js";

/** @template T @typedef {{get: () => T, set: (value: T) => void, listen: (listener: () => void) => () => void}} Signal */

/** @template T @param {T} value @returns {Signal<T>} */
export function signal(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value now, in a component that is drawn again when it changes.
 * @template T @param {Signal<T>} source @returns {T} */
export function useSignal(source) {
  const [, draw] = useState(0);
  useEffect(() => source.listen(() => draw((/** @type {number} */ count) => count + 1)), [source]);
  return source.get();
}
