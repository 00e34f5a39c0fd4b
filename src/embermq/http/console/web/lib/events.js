// @ts-check
/** The events of the broker, `/api/stream`: numbers every second, and which lists have changed.
 *
 * One stream for all pages, open while the console can be seen. A broker that is lost is asked again until it answers.
 */

import { lost, session } from "./api.js";
import { forget, remember } from "./recent.js";
import { signal } from "./signal.js";

const RETRY_MS = 2000;
const SILENCE_MS = 15_000; // even a large broker has something to tell every five seconds

/** The last `overview`; null before the first. @type {import("./signal.js").Signal<any>} */
export const overview = signal(/** @type {any} */ (null));
/** The last `node`, for users who see it. @type {import("./signal.js").Signal<any>} */
export const node = signal(/** @type {any} */ (null));
/** How often messages have moved between two looks: what is shown of them is out of date. */
export const activity = signal(0);
/** How often each list has changed; `*` counts the times when anything may have. @type {Map<string, number>} */
const changeCounts = new Map();
export const changes = signal(0);

/** Whether the stream is open; while it is not, pages ask by themselves. */
export const isOpen = signal(false);

/** How often what is at an address of the API has changed. @param {string} address */
export function changeCount(address) {
  const steps = ["*", ...address.split("?")[0].split("/")];
  return steps.reduce((sum, step) => sum + (changeCounts.get(step) ?? 0), 0);
}

/** @param {string[]} lists */
function changed(lists) {
  for (const list of lists) changeCounts.set(list, (changeCounts.get(list) ?? 0) + 1);
  changes.set(changes.get() + 1);
}

/** Messages that moved, in one number. @param {any} told */
function movement({ message_stats: stats, queue_totals: queued }) {
  return JSON.stringify([stats.publish, stats.deliver_get, stats.ack, stats.confirm, stats.get_empty, queued.messages_ready, queued.messages]);
}

/** @param {string} name @param {any} told */
export function onEvent(name, told) {
  if (name === "change") changed(told.lists);
  if (name === "node") node.set(told);
  if (name !== "overview") return;
  const before = overview.get();
  remember(told);
  overview.set(told);
  if (before === null || movement(before) !== movement(told)) activity.set(activity.get() + 1);
}

/** Cuts text into events as it comes. @param {(name: string, value: any) => void} tell */
export function parser(tell) {
  let rest = "";
  return (/** @type {string} */ text) => {
    const blocks = (rest + text).split("\n\n");
    rest = /** @type {string} */ (blocks.pop());
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) tell(fields.event, JSON.parse(fields.data));
    }
  };
}

let running = /** @type {AbortController | null} */ (null);

/** Until its connection ends. @param {AbortController} control */
async function listen(control) {
  const answer = await fetch("/api/stream", { headers: { "x-embermq-console": "1" }, cache: "no-store", signal: control.signal });
  if (answer.status === 401) session.set(null);
  if (!answer.ok || !answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser(onEvent);
  lost.set(false);
  isOpen.set(true);
  changed(["*"]); // whatever happened while it was closed
  let timer = 0;
  try {
    while (true) {
      timer = setTimeout(() => control.abort(), SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (done) throw new Error("the stream has ended");
      parse(value);
    }
  } finally {
    clearTimeout(timer);
    isOpen.set(false);
  }
}

/** @param {AbortController} control */
async function goOn(control) {
  while (running === control) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    control.signal.addEventListener("abort", stop);
    try {
      await listen(attempt);
    } catch {
      if (running === control) lost.set(true);
    }
    control.signal.removeEventListener("abort", stop);
    if (running === control) await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

function follow() {
  if (document.hidden) {
    stop();
  } else if (!running) {
    running = new AbortController();
    goOn(running);
  }
}

function stop() {
  const control = running;
  running = null;
  control?.abort();
}

/** Listen while the console can be seen: a browser opens six connections to a broker at most, for all its windows.
 * @returns {() => void} ends it */
export function followEvents() {
  document.addEventListener("visibilitychange", follow);
  follow();
  return () => {
    document.removeEventListener("visibilitychange", follow);
    stop();
    overview.set(null);
    node.set(null);
    forget();
  };
}
