// @ts-check
/** Arguments of queues: those that the forms know, and where the effective ones come from. */

/** @typedef {{name: string, type: "number" | "text" | "choice" | "flag", unit?: string, hint: string, choices?: string[]}} Argument */

/** @type {Argument[]} */
export const QUEUE_ARGUMENTS = [
  { name: "x-message-ttl", type: "number", unit: "ms", hint: "messages expire after this time" },
  { name: "x-expires", type: "number", unit: "ms", hint: "the queue is deleted when it is unused for this time" },
  { name: "x-max-length", type: "number", unit: "messages", hint: "more than these overflow" },
  { name: "x-max-length-bytes", type: "number", unit: "bytes", hint: "more than these overflow" },
  { name: "x-overflow", type: "choice", choices: ["drop-head", "reject-publish", "reject-publish-dlx"], hint: "what happens to messages beyond the length" },
  { name: "x-dead-letter-exchange", type: "text", hint: "where rejected and expired messages go" },
  { name: "x-dead-letter-routing-key", type: "text", hint: "with this key instead of their own" },
  { name: "x-max-priority", type: "number", unit: "1 to 255", hint: "messages with a higher priority come first" },
  { name: "x-delivery-limit", type: "number", unit: "deliveries", hint: "more often returned, a message is dead" },
  { name: "x-single-active-consumer", type: "flag", hint: "one consumer at a time gets the messages" },
  { name: "x-consumer-timeout", type: "number", unit: "ms", hint: "time to ack a message" },
];

/** What a policy may say: arguments without their `x-`, and how the server calls a wrong value. @type {(Argument & {says: string, isForOperators?: boolean})[]} */
export const POLICY_KEYS = [
  { name: "message-ttl", type: "number", unit: "ms", hint: "messages expire after this time", says: "valid message TTL", isForOperators: true },
  { name: "expires", type: "number", unit: "ms", hint: "a queue is deleted when it is unused for this time", says: "valid queue expiry", isForOperators: true },
  { name: "max-length", type: "number", unit: "messages", hint: "more than these overflow", says: "valid maximum length", isForOperators: true },
  { name: "max-length-bytes", type: "number", unit: "bytes", hint: "more than these overflow", says: "valid maximum length in bytes", isForOperators: true },
  { name: "delivery-limit", type: "number", unit: "deliveries", hint: "more often returned, a message is dead; -1: any number", says: "valid delivery limit", isForOperators: true },
  { name: "consumer-timeout", type: "number", unit: "ms", hint: "time to ack a message", says: "valid consumer timeout", isForOperators: true },
  { name: "overflow", type: "choice", choices: ["drop-head", "reject-publish", "reject-publish-dlx"], hint: "what happens to messages beyond the length", says: "valid overflow" },
  { name: "dead-letter-exchange", type: "text", hint: "where rejected and expired messages go", says: "valid dead letter exchange" },
  { name: "dead-letter-routing-key", type: "text", hint: "with this key instead of their own", says: "valid dead letter routing key" },
  { name: "dead-letter-strategy", type: "choice", choices: ["at-most-once", "at-least-once"], hint: "whether a dead letter may be lost in a crash", says: "valid dead letter strategy" },
  { name: "alternate-exchange", type: "text", hint: "where messages go that no binding of an exchange takes", says: "valid alternate exchange" },
  { name: "max-age", type: "text", unit: "7D, 12h, 30m", hint: "older segments of a stream are deleted", says: "valid max age" },
  { name: "stream-max-segment-size-bytes", type: "number", unit: "bytes", hint: "of the files of a stream", says: "valid segment size" },
  { name: "deduplication", type: "flag", hint: "a message with an id that was there is dropped", says: "valid deduplication value" },
  { name: "deduplication-header", type: "text", hint: "the header that has the id", says: "valid deduplication header" },
  { name: "deduplication-window", type: "number", unit: "ms", hint: "for which an id is remembered", says: "valid deduplication window" },
  { name: "retry-delay", type: "number", unit: "ms", hint: "before a returned message is delivered again", says: "valid retry delay" },
  { name: "retry-backoff", type: "number", unit: "1 to 1000", hint: "the factor by which the delay grows", says: "valid retry backoff" },
  { name: "retry-max-delay", type: "number", unit: "ms", hint: "it grows no further", says: "valid maximum retry delay" },
];

/** Known arguments as fields of a form, filled with what there is. @param {Argument[]} known @param {Record<string, any>} [there] */
export function argumentFields(known, there = {}) {
  return known.map(({ name, type, unit, hint, choices }) => ({
    name,
    label: name,
    unit,
    hint,
    type: type === "choice" ? "text" : type,
    choices: choices && ["", ...choices],
    first: there[name] ?? (type === "flag" ? false : ""),
  }));
}

/** Fields of a form as arguments; what is empty is not given.
 * @param {Record<string, string | boolean>} fields @param {Argument[]} known */
export function argumentsOf(fields, known) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const { name, type } of known) {
    const given = fields[name];
    if (given === undefined || given === "" || given === false) continue;
    found[name] = type === "number" ? Number(given) : given;
  }
  return found;
}

/**
 * The effective arguments of a queue with their sources.
 * @param {any} queue as the API shows it
 * @returns {{name: string, value: unknown, source: string}[]}
 */
export function argumentSources(queue) {
  const declared = queue.arguments ?? {};
  const policy = queue.effective_policy_definition ?? {};
  const effective = { ...declared, ...queue.effective_arguments };
  return Object.keys(effective).sort().map((name) => {
    const value = effective[name];
    const isSame = (/** @type {unknown} */ other) => JSON.stringify(other) === JSON.stringify(value);
    if (name in declared && isSame(declared[name])) return { name, value, source: "declared" };
    const key = name.replace(/^x-/, "");
    if (key in policy && isSame(policy[key])) return { name, value, source: policySource(queue) };
    return { name, value, source: "default" };
  });
}

/** @param {any} queue */
function policySource(queue) {
  if (queue.policy && queue.operator_policy) return `policy ${queue.policy} or operator policy ${queue.operator_policy}`;
  return queue.policy ? `policy ${queue.policy}` : `operator policy ${queue.operator_policy}`;
}
