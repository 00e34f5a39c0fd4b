// @ts-check
/** Samples of the past as lines of a chart. */

/** Spans to choose from, in seconds, with the distance of two samples that the broker keeps for it. */
export const SPANS = [
  { age: 60, step: 5, label: "1 min" },
  { age: 600, step: 5, label: "10 min" },
  { age: 3600, step: 60, label: "1 h" },
  { age: 28800, step: 600, label: "8 h" },
  { age: 86400, step: 1800, label: "1 day" },
];

/** @typedef {{rate: number, samples?: {sample: number, timestamp: number}[]}} Details */

/** Times in seconds, oldest first. @param {Details | undefined} details */
export function times(details) {
  return (details?.samples ?? []).map(({ timestamp }) => timestamp / 1000).reverse();
}

/** Lengths of the past, oldest first. @param {Details | undefined} details */
export function lengths(details) {
  return (details?.samples ?? []).map(({ sample }) => sample).reverse();
}

/** Per second, between one sample and the next; as many as there are times, the first unknown.
 * @param {Details | undefined} details @returns {(number | null)[]} */
export function rates(details) {
  const samples = [...(details?.samples ?? [])].reverse();
  return samples.map((later, at) => {
    if (at === 0) return null;
    const seconds = (later.timestamp - samples[at - 1].timestamp) / 1000;
    return Math.max(0, later.sample - samples[at - 1].sample) / seconds;
  });
}

const SPIKE = 50;

/** Is there a spike beside which the rest would be a flat line? Its scale is logarithmic then.
 * @param {(number | null)[][]} lines */
export function hasSpike(lines) {
  const known = lines.flat().filter((value) => value !== null && value > 0).sort((a, b) => Number(a) - Number(b));
  if (known.length < 4) return false;
  return Number(known.at(-1)) > SPIKE * Number(known[Math.floor(known.length / 2)]);
}
