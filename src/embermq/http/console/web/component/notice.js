// @ts-check
/** The line that tells what was done, with a button that takes it back. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { notice } from "../lib/notice.js";
import { useSignal } from "../lib/signal.js";

const SHOWN_MS = 60_000;

export function NoticeLine() {
  const told = useSignal(notice);
  const [error, setError] = useState("");
  useEffect(() => {
    setError("");
    const timer = told ? setTimeout(() => notice.set(null), SHOWN_MS) : 0;
    return () => clearTimeout(timer);
  }, [told]);
  async function takeBack() {
    try {
      await told?.undo?.();
      notice.set({ text: "Taken back." });
    } catch (problem) {
      setError(/** @type {Error} */ (problem).message);
    }
  }
  return html`<div role="status" class="notice-place">
    ${told &&
    html`<p class="notice">
      <span>${error || told.text}</span>
      ${told.undo && !error && html`<button type="button" onClick=${takeBack}>Undo</button>`}
      <button type="button" class="plain" aria-label="Dismiss" onClick=${() => notice.set(null)}>×</button>
    </p>`}
  </div>`;
}
