// @ts-check
/** One action on many things, one after the other: what fails does not stop the rest. */

/** @typedef {() => Promise<unknown>} Undo */

/**
 * @template T
 * @param {T[]} items
 * @param {(item: T) => Promise<unknown>} act may answer how to take it back
 * @param {(done: number) => void} report
 * @returns {Promise<{done: T[], failures: {item: T, reason: string}[], undo?: Undo}>} `undo` where all that was done can be taken back
 */
export async function actOnAll(items, act, report) {
  const done = [];
  const failures = [];
  const undos = /** @type {Undo[]} */ ([]);
  for (const [at, item] of items.entries()) {
    try {
      const undo = await act(item);
      if (typeof undo === "function") undos.push(/** @type {Undo} */ (undo));
      done.push(item);
    } catch (error) {
      failures.push({ item, reason: /** @type {Error} */ (error).message });
    }
    report(at + 1);
  }
  const canUndo = done.length > 0 && undos.length === done.length;
  return { done, failures, undo: canUndo ? () => takeBack(undos) : undefined };
}

/** The last first. @param {Undo[]} undos */
async function takeBack(undos) {
  for (const undo of undos.toReversed()) await undo();
}
