// @ts-check
/** The HTTP API: requests in the name of the session, errors in the server's words. */

import { signal } from "./signal.js";

const TIMEOUT_MS = 20_000;

/** What the server refused, and why. */
export class Refused extends Error {
  /** @param {number} status @param {string} reason @param {any} [body] */
  constructor(status, reason, body) {
    super(reason);
    this.status = status;
    this.body = body;
  }
}

/** No answer: the broker is not there, or cannot be reached. */
export class Lost extends Error {}

/** Whether the last request had no answer. */
export const lost = signal(false);

/** The user: `undefined` while it is not known, `null` where nobody is signed in.
 * @type {import("./signal.js").Signal<undefined | null | import("./permission.js").Session>} */
export const session = signal(/** @type {any} */ (undefined));

/**
 * A step of a path. A name may hold bytes that are no UTF-8, which the server writes as lone surrogates.
 * @param {string} name
 */
export function encoded(name) {
  return name
    .split(/(\p{Surrogate})/u)
    .map((part, at) =>
      at % 2 ? "%" + (part.charCodeAt(0) & 0xff).toString(16).padStart(2, "0") : encodeURIComponent(part),
    )
    .join("");
}

/** A path with names in it: path`/queues/${vhost}/${name}`.
 * @param {TemplateStringsArray} texts @param {...string} names */
export function path(texts, ...names) {
  return texts.reduce((whole, text, at) => whole + encoded(names[at - 1]) + text);
}

/**
 * @param {string} method
 * @param {string} address below /api
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>} what was answered; null for nothing
 */
export async function ask(method, address, body, headers) {
  let answer, text;
  try {
    answer = await fetch("/api" + address, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: { "x-embermq-console": "1", accept: "application/json", ...headers },
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await answer.text();
  } catch {
    lost.set(true);
    throw new Lost("The broker does not answer.");
  }
  lost.set(false);
  const value = parsed(text);
  if (answer.ok) return value;
  if (answer.status === 401 && value?.reason === "Not signed in") session.set(null);
  throw new Refused(answer.status, reasonOf(value) || `${answer.status} ${answer.statusText}`, value);
}

/** @param {string} text */
function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** @param {any} value */
function reasonOf(value) {
  const reason = value?.reason;
  return typeof reason === "string" ? reason : reason === undefined ? "" : JSON.stringify(reason);
}

export const get = (/** @type {string} */ address) => ask("GET", address);
