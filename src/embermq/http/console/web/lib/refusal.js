// @ts-check
/** The field of a form that a refusal is about, found in the server's words. */

/**
 * @param {string} reason
 * @param {Record<string, unknown>} fields of the form, by name
 * @param {Record<string, string>} [says] how the server calls a field that it does not call by its name
 * @returns {string} the field's name; "" where the refusal is about no field
 */
export function fieldOf(reason, fields, says = {}) {
  const names = Object.keys(fields).sort((one, other) => other.length - one.length);
  const isNamed = (/** @type {string} */ word) => new RegExp(`(^|[^\\w-])${escaped(word)}($|[^\\w-])`).test(reason);
  return (
    names.find((name) => name.includes("-") && isNamed(name)) ??
    names.find((name) => says[name] && reason.includes(says[name])) ??
    names.find((name) => isQuoted(reason, fields[name])) ??
    names.find(isNamed) ??
    ""
  );
}

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** @param {string} reason @param {unknown} value */
function isQuoted(reason, value) {
  return typeof value === "string" && value !== "" && (reason.includes(`'${value}'`) || reason.includes(JSON.stringify(value)));
}
