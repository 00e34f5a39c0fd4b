// @ts-check
/** A question before something is lost: it names what, and asks again in the server's words when refused. */

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";

/**
 * @param {{title: string, verb: string, act: () => Promise<void>, close: () => void, children?: any}} properties
 */
export function Confirm({ title, verb, act, close, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  async function confirmed() {
    setBusy(true);
    try {
      await act();
      close();
    } catch (problem) {
      setError(/** @type {Error} */ (problem).message);
      setBusy(false);
    }
  }
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${close}>
    <h2 id="dialog-title">${title}</h2>
    ${children} ${error && html`<p class="alarm" role="alert">${error}</p>`}
    <p class="buttons">
      <button type="button" onClick=${close} autofocus>Cancel</button>
      <button type="button" class="danger" disabled=${isBusy} onClick=${confirmed}>${verb}</button>
    </p>
  </dialog>`;
}
