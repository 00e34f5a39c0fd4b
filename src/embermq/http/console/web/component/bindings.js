// @ts-check
/** Bindings of an exchange or a queue, as links, with unbinding and a form to bind. */

import { html, useState } from "../vendor/preact-htm.js";
import { session as current } from "../lib/api.js";
import { usePolled } from "../lib/poll.js";
import { useSignal } from "../lib/signal.js";
import { ARGUMENTS, bindingKey, KEY, UNBIND } from "../list/bindings.js";
import { ActionDialog } from "../page/list.js";
import { Table } from "./table.js";

/** @param {{title: string, address: string, end: import("./table.js").Column}} properties `end`: the other end */
export function BindingTable({ title, address, end }) {
  const session = /** @type {any} */ (useSignal(current));
  const { data, reload } = usePolled(address);
  const [asking, setAsking] = useState(/** @type {any} */ (null));
  const button = (/** @type {any} */ binding) => UNBIND.may(session, binding) && html`<button type="button" class="plain" onClick=${() => setAsking(binding)}>Unbind</button>`;
  return html`<h3>${title}</h3>
    ${data && html`<${Table} label=${title} items=${data.items ?? data} columns=${[end, KEY, ARGUMENTS, { label: "", cell: button }]} session=${session} keyOf=${bindingKey} nothing="None." />`}
    ${asking && html`<${ActionDialog} action=${UNBIND} items=${[asking]} noun="binding" close=${() => setAsking(null)} ended=${reload} />`}`;
}
