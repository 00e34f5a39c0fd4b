// @ts-check
/** What the API answers, asked for again every few seconds while the page can be seen. */

import { useCallback, useEffect, useState } from "../vendor/preact-htm.js";
import { get } from "./api.js";

export const EVERY_MS = 5000;

/**
 * @param {string | null} address null: nothing is asked for
 * @param {number} [everyMs]
 * @returns {{data: any, error: Error | null, reload: () => void}} data stays while there is no answer
 */
export function usePolled(address, everyMs = EVERY_MS) {
  const [state, setState] = useState(/** @type {any} */ ({ address: null, data: null, error: null }));
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    if (address === null) return undefined;
    let timer = 0;
    let ended = false;
    async function round() {
      if (!document.hidden) {
        try {
          const data = await get(/** @type {string} */ (address));
          if (!ended) setState({ address, data, error: null });
        } catch (error) {
          if (!ended) setState((/** @type {any} */ old) => ({ address, data: old.address === address ? old.data : null, error }));
        }
      }
      if (!ended) timer = setTimeout(round, everyMs);
    }
    round();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [address, everyMs, asked]);
  const reload = useCallback(() => setAsked((/** @type {number} */ count) => count + 1), []);
  return { data: state.data, error: state.error, reload };
}
