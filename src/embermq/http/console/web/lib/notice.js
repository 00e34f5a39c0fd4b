// @ts-check
/** What was done last, told on every page, with a way back where there is one. */

import { signal } from "./signal.js";

/** @typedef {{text: string, undo?: () => Promise<unknown>}} Notice */

/** @type {import("./signal.js").Signal<Notice | null>} */
export const notice = signal(/** @type {Notice | null} */ (null));

/** @param {string} text @param {() => Promise<unknown>} [undo] */
export function tell(text, undo) {
  notice.set({ text, undo });
}
