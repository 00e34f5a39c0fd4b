// @ts-check
/** Messages: tables that are typed in as JSON, types of header values, the story of a dead letter. */

/** A JSON object that was typed in; {} for nothing. @param {string} name of the field, for the error @param {string} text */
export function tableOf(name, text) {
  if (!text.trim()) return {};
  let table;
  try {
    table = JSON.parse(text);
  } catch {
    throw new Error(`${name} must be a JSON object, like {"a": 1}`);
  }
  if (table === null || typeof table !== "object" || Array.isArray(table)) throw new Error(`${name} must be a JSON object, like {"a": 1}`);
  return table;
}

/** The type of a header's value, as JSON shows it. @param {unknown} value */
export function typeOf(value) {
  if (value === null) return "void";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "double";
  return { boolean: "boolean", string: "text", object: "table" }[/** @type {"string"} */ (typeof value)] ?? typeof value;
}

const REASONS = {
  rejected: "was rejected",
  expired: "expired",
  maxlen: "was dropped, because the queue was full",
  delivery_limit: "was returned too often",
  deleted: "was there when the queue was deleted",
};

/** What happened to a dead letter, oldest first. @param {any} headers @returns {string[]} */
export function story(headers) {
  const deaths = Array.isArray(headers?.["x-death"]) ? [...headers["x-death"]].reverse() : [];
  return deaths.map((death) => {
    const why = REASONS[/** @type {"expired"} */ (death.reason)] ?? String(death.reason);
    const times = death.count > 1 ? ` ${death.count} times` : "";
    const when = typeof death.time === "number" ? `, first at ${new Date(death.time * 1000).toLocaleString("sv")}` : "";
    const keys = (death["routing-keys"] ?? []).join(", ");
    return `It ${why}${times} in queue ${death.queue}${when}. It had come through ${death.exchange ? `exchange ${death.exchange}` : "the default exchange"} with the key ${keys || "''"}.`;
  });
}

/** The bytes of a body. @param {string} payload @param {string} encoding */
export function bytesOf(payload, encoding) {
  if (encoding !== "base64") return new TextEncoder().encode(payload);
  return Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
}

/** What msgpack says, or undefined where it is none. @param {Uint8Array} bytes */
export function unpacked(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (/** @type {number} */ count) => {
    at += count;
    if (at > bytes.length) throw new RangeError("cut off");
    return at - count;
  };
  const text = (/** @type {number} */ count) => new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(take(count), at));
  const list = (/** @type {number} */ count) => {
    if (count > bytes.length) throw new RangeError("cut off");
    return Array.from({ length: count }, next);
  };
  const map = (/** @type {number} */ count) => Object.fromEntries(list(2 * count).reduce((/** @type {any[]} */ pairs, item, index) => (index % 2 ? (pairs[pairs.length - 1].push(item), pairs) : [...pairs, [String(item)]]), []));
  const size = (/** @type {number} */ width) => (width === 1 ? view.getUint8(take(1)) : width === 2 ? view.getUint16(take(2)) : view.getUint32(take(4)));
  const raw = (/** @type {number} */ count) => [...bytes.subarray(take(count), at)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  /** @returns {any} */
  function next() {
    const kind = view.getUint8(take(1));
    if (kind < 0x80) return kind;
    if (kind < 0x90) return map(kind & 15);
    if (kind < 0xa0) return list(kind & 15);
    if (kind < 0xc0) return text(kind & 31);
    if (kind >= 0xe0) return kind - 256;
    switch (kind) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return raw(size(1 << (kind - 0xc4)));
      case 0xca: return view.getFloat32(take(4));
      case 0xcb: return view.getFloat64(take(8));
      case 0xcc: case 0xcd: case 0xce: return size(1 << (kind - 0xcc));
      case 0xcf: return Number(view.getBigUint64(take(8)));
      case 0xd0: return view.getInt8(take(1));
      case 0xd1: return view.getInt16(take(2));
      case 0xd2: return view.getInt32(take(4));
      case 0xd3: return Number(view.getBigInt64(take(8)));
      case 0xd9: case 0xda: case 0xdb: return text(size(1 << (kind - 0xd9)));
      case 0xdc: case 0xdd: return list(size(kind === 0xdc ? 2 : 4));
      case 0xde: case 0xdf: return map(size(kind === 0xde ? 2 : 4));
      default: throw new RangeError("no msgpack, or of a kind of its own");
    }
  }
  try {
    const value = next();
    return at === bytes.length ? value : undefined;
  } catch {
    return undefined;
  }
}

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * How a body is shown: by its content type, or by what it looks like. Images of these types run no scripts.
 * @param {any} message @returns {{kind: "json" | "image" | "text" | "hex", value: any, bytes: Uint8Array}}
 */
export function bodyOf({ payload, payload_encoding, payload_bytes, properties }) {
  const type = (properties?.content_type ?? "").split(";")[0].trim().toLowerCase();
  const bytes = bytesOf(payload, payload_encoding);
  const isWhole = bytes.length === payload_bytes;
  if (IMAGES.includes(type) && isWhole) {
    const encoded = payload_encoding === "base64" ? payload : btoa(String.fromCharCode(...bytes));
    return { kind: "image", value: `data:${type};base64,${encoded}`, bytes };
  }
  if (/msgpack/.test(type) && isWhole) {
    const value = unpacked(bytes);
    if (value !== undefined) return { kind: "json", value, bytes };
  }
  if (payload_encoding === "base64") return { kind: "hex", value: null, bytes };
  if (/[/+]json$/.test(type) || /^\s*[[{]/.test(payload)) {
    try {
      return { kind: "json", value: JSON.parse(payload), bytes };
    } catch {
      return { kind: "text", value: payload, bytes };
    }
  }
  return { kind: "text", value: /[/+]xml$/.test(type) ? indented(payload) : payload, bytes };
}

/** XML with an element in each line. @param {string} text */
export function indented(text) {
  let depth = 0;
  const lines = text.replace(/>\s*</g, ">\n<").split("\n").map((line) => {
    if (/^<\//.test(line)) depth -= 1;
    const shown = "  ".repeat(Math.max(0, depth)) + line;
    if (/^<[^/?!]/.test(line) && !/\/>$/.test(line) && !/<\//.test(line)) depth += 1;
    return shown;
  });
  return lines.join("\n");
}
