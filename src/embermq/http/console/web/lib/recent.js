// @ts-check
/** The last ten minutes as the events told them, second by second, to go on where the samples of the broker end. */

const KEPT_MS = 600_000;

/** @typedef {{timestamp: number, message_stats: any, queue_totals: any}} Told */

/** @type {Told[]} */
const kept = [];

/** @param {Told} told */
export function remember(told) {
  if (kept.length && told.timestamp <= kept[kept.length - 1].timestamp) kept.length = 0; // another broker, or another clock
  kept.push(told);
  while (kept[0].timestamp < told.timestamp - KEPT_MS) kept.shift();
}

/** For another user. */
export function forget() {
  kept.length = 0;
}

/**
 * A chart that goes on to this second: samples of the broker, then what the events told since.
 * @param {number[]} times in seconds @param {(number | null)[][]} lines @param {(told: Told) => number[]} values @param {number} age in seconds
 * @returns {{times: number[], lines: (number | null)[][]}}
 */
export function continued(times, lines, values, age) {
  const live = kept.filter(({ timestamp }) => timestamp / 1000 > (times.at(-1) ?? 0));
  if (live.length === 0) return { times, lines };
  const end = live[live.length - 1].timestamp / 1000;
  const all = [...times, ...live.map(({ timestamp }) => timestamp / 1000)];
  const first = all.findIndex((time) => time >= end - age);
  const added = live.map(values);
  return { times: all.slice(first), lines: lines.map((line, at) => [...line, ...added.map((numbers) => numbers[at])].slice(first)) };
}
