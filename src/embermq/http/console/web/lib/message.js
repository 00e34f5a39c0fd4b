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
