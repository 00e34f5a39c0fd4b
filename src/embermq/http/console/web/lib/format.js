// @ts-check
/** Numbers, sizes and times as people read them. */

/** 12,345; small rates with their tenths. @param {number | undefined | null} count */
export function number(count) {
  if (count === undefined || count === null || Number.isNaN(count)) return "";
  const digits = count !== 0 && Math.abs(count) < 10 && !Number.isInteger(count) ? 1 : 0;
  return count.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** 1.2k, 3M: for an axis. @param {number} count */
export function short(count) {
  return count.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
}

/** 1.5 MiB. @param {number | undefined | null} count */
export function size(count) {
  if (count === undefined || count === null) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(count) >= 1024 && at < units.length - 1) {
    count /= 1024;
    at += 1;
  }
  return `${count.toLocaleString("en", { maximumFractionDigits: at && count < 100 ? 1 : 0 })} ${units[at]}`;
}

/** 2 d 3 h. @param {number} seconds */
export function duration(seconds) {
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  return parts.filter(([count]) => count).slice(0, 2).map(([count, unit]) => `${count} ${unit}`).join(" ") || "0 s";
}

/** @param {number} ms since 1970 */
export function time(ms) {
  return new Date(ms).toLocaleString("sv");
}

/** The time of day. @param {number} seconds since 1970 */
export function clock(seconds) {
  const text = new Date(seconds * 1000).toLocaleTimeString("sv");
  return text.endsWith(":00") ? text.slice(0, -3) : text;
}

/** A value of a field table, short. @param {unknown} value */
export function value(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Queues, policies. @param {string} noun */
export function plural(noun) {
  return noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
}

/** 1 queue, 2 queues. @param {number} count @param {string} noun */
export function counted(count, noun) {
  return count === 1 ? `1 ${noun}` : `${number(count)} ${plural(noun)}`;
}

/** A body as text: JSON in lines, bytes in hexadecimal. @param {string} payload @param {string} encoding */
export function body(payload, encoding) {
  if (encoding === "base64") return hex(Uint8Array.from(atob(payload), (character) => character.charCodeAt(0)));
  if (/^\s*[[{]/.test(payload)) {
    try {
      return JSON.stringify(JSON.parse(payload), null, 2);
    } catch {
      return payload;
    }
  }
  return payload;
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, 512); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${at.toString(16).padStart(4, "0")}  ${digits}  ${text}`);
  }
  return rows.join("\n");
}
