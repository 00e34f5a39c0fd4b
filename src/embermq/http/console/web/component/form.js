// @ts-check
/** Forms: fields with their units and hints, and the server's refusal where the form ends. */

import { html, useState } from "../vendor/preact-htm.js";

/**
 * @param {{label: string, name: string, hint?: any, unit?: string, value: any, onInput: (value: any) => void,
 *   type?: string, choices?: string[], isRequired?: boolean, list?: string, rows?: number, autocomplete?: string}} properties
 */
export function Field({ label, name, hint, unit, value, onInput, type = "text", choices, isRequired, rows, autocomplete }) {
  const id = `field-${name}`;
  const common = { id, name, required: isRequired, "aria-describedby": hint || unit ? `${id}-hint` : undefined };
  const typed = (/** @type {any} */ event) => onInput(type === "flag" ? event.target.checked : event.target.value);
  let input;
  if (choices) {
    input = html`<select ...${common} value=${value} onChange=${typed}>
      ${choices.map((choice) => html`<option value=${choice} selected=${choice === value}>${choice || "–"}</option>`)}
    </select>`;
  } else if (type === "flag") {
    input = html`<input ...${common} type="checkbox" checked=${value} onChange=${typed} />`;
  } else if (rows) {
    input = html`<textarea ...${common} rows=${rows} value=${value} onInput=${typed}></textarea>`;
  } else {
    input = html`<input ...${common} type=${type} value=${value} onInput=${typed} autocomplete=${autocomplete ?? "off"} spellcheck=${false} />`;
  }
  return html`<div class=${type === "flag" ? "field flag" : "field"}>
    <label for=${id}>${label}</label>
    <span class="input">${input}</span>
    ${(hint || unit) && html`<small id=${`${id}-hint`}>${unit && html`<b>${unit}</b> `}${hint}</small>`}
  </div>`;
}

/** Fields by their names, and a function that makes a change of one. @param {Record<string, any>} first
 * @returns {[Record<string, any>, (name: string) => (value: any) => void, (fields: Record<string, any>) => void]} */
export function useFields(first) {
  const [fields, setFields] = useState(first);
  const change = (/** @type {string} */ name) => (/** @type {any} */ value) =>
    setFields((/** @type {Record<string, any>} */ old) => ({ ...old, [name]: value }));
  return [fields, change, setFields];
}

/**
 * @param {{submit: () => Promise<any>, verb: string, label: string, children?: any}} properties
 */
export function Form({ submit, verb, label, children }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function send(/** @type {Event} */ event) {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await submit();
    } catch (problem) {
      setError(/** @type {Error} */ (problem).message);
    }
    setBusy(false);
  }
  return html`<form onSubmit=${send} aria-label=${label}>
    ${children} ${error && html`<p class="alarm" role="alert">${error}</p>`}
    <p class="buttons"><button type="submit" class="main" disabled=${isBusy}>${verb}</button></p>
  </form>`;
}
