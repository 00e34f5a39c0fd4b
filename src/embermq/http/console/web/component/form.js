// @ts-check
/** Forms: fields with their units and hints, and the server's refusal at the field that it is about. */

import { createContext, html, useContext, useRef, useState } from "../vendor/preact-htm.js";
import { fieldOf } from "../lib/refusal.js";

/** @typedef {{field: string, text: string}} Problem */
const NONE = { field: "", text: "" };
const FormProblem = createContext(/** @type {Problem} */ (NONE));

/**
 * @param {{label: any, name: string, hint?: any, unit?: string, value: any, onInput: (value: any) => void, type?: string,
 *   choices?: string[], isRequired?: boolean, suggestions?: string[], rows?: number, autocomplete?: string, isFixed?: boolean,
 *   placeholder?: string}} properties `suggestions`: offered, but anything may be typed
 */
export function Field({ label, name, hint, unit, value, onInput, type = "text", choices, isRequired, suggestions, rows, autocomplete, isFixed, placeholder }) {
  const id = `field-${name}`;
  const problem = useContext(FormProblem);
  const isWrong = problem.field === name;
  const described = [isWrong && `${id}-problem`, (hint || unit) && `${id}-hint`].filter(Boolean).join(" ");
  const common = { id, name, required: isRequired, disabled: isFixed, "aria-describedby": described || undefined, "aria-invalid": isWrong ? "true" : undefined };
  const typed = (/** @type {any} */ event) => onInput(type === "flag" ? event.target.checked : event.target.value);
  let input;
  if (choices) {
    input = html`<select ...${common} value=${value} onChange=${typed}>
      ${choices.map((choice) => html`<option value=${choice} selected=${choice === value}>${choice || "–"}</option>`)}
    </select>`;
  } else if (type === "flag") {
    input = html`<input ...${common} type="checkbox" checked=${value} onChange=${typed} />`;
  } else if (rows) {
    input = html`<textarea ...${common} rows=${rows} value=${value} onInput=${typed} placeholder=${placeholder} spellcheck=${false}></textarea>`;
  } else {
    const list = suggestions ? `${id}-list` : undefined;
    input = html`<input ...${common} type=${type} value=${value} onInput=${typed} list=${list} placeholder=${placeholder}
        step=${type === "number" ? "any" : undefined} autocomplete=${autocomplete ?? "off"} spellcheck=${false} />
      ${suggestions && html`<datalist id=${list}>${suggestions.map((known) => html`<option value=${known}></option>`)}</datalist>`}`;
  }
  return html`<div class=${type === "flag" ? "field flag" : "field"}>
    <label for=${id}>${label}${isRequired && html`<span class="required" aria-hidden="true"> *</span>`}</label>
    <span class="input">${input}</span>
    ${isWrong && html`<span class="problem" id=${`${id}-problem`} role="alert">${problem.text}</span>`}
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

/** What a form has in its fields, by name. @param {HTMLFormElement} form */
function filled(form) {
  const inputs = /** @type {HTMLInputElement[]} */ ([...form.elements]).filter(({ name }) => name);
  return Object.fromEntries(inputs.map(({ name, value }) => [name, value]));
}

/**
 * @param {{submit: () => Promise<any>, verb: string, label: string, says?: Record<string, string>, isDanger?: boolean, before?: any, children?: any}} properties
 *   `says`: how the server calls a field that it does not call by its name; `before`: buttons before that of the form
 */
export function Form({ submit, verb, label, says, isDanger, before, children }) {
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem} */ (NONE));
  const [isBusy, setBusy] = useState(false);
  async function send(/** @type {Event} */ event) {
    event.preventDefault();
    setBusy(true);
    setProblem(NONE);
    try {
      await submit();
    } catch (error) {
      const text = /** @type {Error} */ (error).message;
      const element = /** @type {HTMLFormElement} */ (form.current);
      const field = fieldOf(text, filled(element), says);
      setProblem({ field, text });
      if (field) /** @type {any} */ (element.elements.namedItem(field))?.focus();
    }
    setBusy(false);
  }
  return html`<form ref=${form} onSubmit=${send} aria-label=${label}>
    <${FormProblem.Provider} value=${problem}>${children}<//>
    ${problem.text && !problem.field && html`<p class="alarm" role="alert">${problem.text}</p>`}
    <p class="buttons">${before}<button type="submit" class=${isDanger ? "danger" : "main"} disabled=${isBusy}>${verb}</button></p>
  </form>`;
}
