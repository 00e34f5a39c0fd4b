// @ts-check
/** What the API answers, asked for again when the events say that it is out of date.
 *
 * A change of the list comes at once. Numbers come every few seconds, and only while messages move: a broker that rests
 * is not asked. Without events it is asked every few seconds.
 */

import { useCallback, useEffect, useState } from "../vendor/preact-htm.js";
import { get, Lost, lost } from "./api.js";
import { activity, changeCount, changes, isOpen } from "./events.js";

export const EVERY_MS = 5000;
const CHANGE_MS = 300; // many changes are one question
const BETWEEN_MS = 2000;
const LOST_MS = 2000;
const RESTING_ROUNDS = 2; // until rates, which are those of some seconds, have come to rest too

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
    let isAsking = false;
    let known = { changes: -1, activity: -1 };
    let rounds = 0;
    let askedAt = 0;

    async function ask() {
      clearTimeout(timer);
      isAsking = true;
      askedAt = Date.now();
      known = { changes: changeCount(/** @type {string} */ (address)), activity: activity.get() };
      let wait = everyMs;
      try {
        const data = await get(/** @type {string} */ (address));
        if (!ended) setState({ address, data, error: null });
      } catch (error) {
        if (error instanceof Lost) wait = LOST_MS;
        if (!ended) setState((/** @type {any} */ old) => ({ address, data: old.address === address ? old.data : null, error }));
      }
      isAsking = false;
      if (!ended) timer = setTimeout(round, wait);
      if (!ended) onChange();
    }

    function round() {
      const moves = !isOpen.get() || known.activity !== activity.get();
      rounds = moves ? 0 : rounds + 1;
      if (!document.hidden && (rounds <= RESTING_ROUNDS || lost.get())) ask();
      else timer = setTimeout(round, everyMs);
    }

    function onChange() {
      if (isAsking || changeCount(/** @type {string} */ (address)) === known.changes) return;
      clearTimeout(timer);
      timer = setTimeout(ask, Math.max(CHANGE_MS, askedAt + BETWEEN_MS - Date.now()));
    }

    ask();
    const unlisten = changes.listen(onChange);
    return () => {
      ended = true;
      clearTimeout(timer);
      unlisten();
    };
  }, [address, everyMs, asked]);
  const reload = useCallback(() => setAsked((/** @type {number} */ count) => count + 1), []);
  return { data: state.data, error: state.error, reload };
}
