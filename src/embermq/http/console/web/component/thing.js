// @ts-check
/** The frame of a page about one thing: its name, what it is, what may be done with it, and what to say when it is gone. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { session as current } from "../lib/api.js";
import { usePolled } from "../lib/poll.js";
import { useSignal } from "../lib/signal.js";
import { ActionDialog } from "../page/list.js";

/** Numbers and words with their labels. @param {{facts: [string, any][]}} properties */
export function Facts({ facts }) {
  const known = facts.filter(([, shown]) => shown !== undefined && shown !== null && shown !== "" && shown !== false);
  return html`<dl class="facts">${known.map(([label, shown]) => html`<div><dt>${label}</dt><dd>${shown}</dd></div>`)}</dl>`;
}

/** @param {{id: string, title: string, children?: any}} properties */
export function Section({ id, title, children }) {
  return html`<section aria-labelledby=${id}><h2 id=${id}>${title}</h2>${children}</section>`;
}

/**
 * @param {{address: string, name: any, title: string, noun: string, list: {step: string, title: string},
 *   actions?: import("../page/list.js").Action[], show: (item: any, session: any, reload: () => void) => any}} properties
 */
export function ThingPage({ address, name, title, noun, list, actions = [], show }) {
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const { data, error, reload } = usePolled(address);
  const [asking, setAsking] = useState(/** @type {import("../page/list.js").Action | null} */ (null));
  useEffect(() => {
    document.title = `${title} – EmberMQ`;
  }, [title]);
  const head = html`<p><a href=${"#/" + list.step}>All ${list.title.toLowerCase()}</a></p>`;
  const refused = /** @type {any} */ (error)?.status;
  if (refused) {
    const why = refused === 404 ? `There is no such ${noun}. Perhaps it was deleted a moment ago.` : error?.message;
    return html`${head}<h1>${name}</h1><p class="alarm" role="alert">${why}</p>`;
  }
  if (!data) return html`${head}<h1>${name}</h1>`;
  return html`${head}
    <div class="over"><h1>${name}</h1>
      ${actions
        .filter((action) => action.may(session, data))
        .map((action) => html`<button type="button" class=${action.isSafe ? "" : "danger"} onClick=${() => setAsking(action)}>${action.verb}</button>`)}
    </div>
    ${show(data, session, reload)}
    ${asking && html`<${ActionDialog} action=${asking} items=${[data]} noun=${noun} close=${() => setAsking(null)} ended=${reload} />`}`;
}
