// @ts-check
/** A question before something is done: it names what would be lost, and tells in the server's words what was refused. */

import { html, useEffect, useRef } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "./form.js";

/** @typedef {{name: string, label: string, type?: string, unit?: string, hint?: string, isRequired?: boolean, first?: string}} Asked */

/**
 * @param {{title: string, verb: string, act: (fields: Record<string, any>) => Promise<void>, close: () => void, fields?: Asked[],
 *   isSafe?: boolean, children?: any}} properties `fields`: what must be known besides; `isSafe`: nothing is lost
 */
export function Confirm({ title, verb, act, close, fields = [], isSafe, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [filled, change] = useFields(Object.fromEntries(fields.map(({ name, first = "" }) => [name, first])));
  useEffect(() => dialog.current?.showModal(), []);
  async function confirmed() {
    await act(filled);
    close();
  }
  const cancel = html`<button type="button" onClick=${close} autofocus=${fields.length === 0}>Cancel</button>`;
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${close}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
    <${Form} label=${title} verb=${verb} isDanger=${!isSafe} submit=${confirmed} before=${cancel}>
      ${fields.map(({ name, ...field }) => html`<${Field} key=${name} name=${name} ...${field} value=${filled[name]} onInput=${change(name)} />`)}
    <//>
  </dialog>`;
}
