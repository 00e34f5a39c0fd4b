// @ts-check
/** The route tester: which queues a message would reach, and for each binding why or why not. Nothing is published. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { ask, get, path, Refused, session as current } from "../lib/api.js";
import { counted, value } from "../lib/format.js";
import { tableOf } from "../lib/message.js";
import { changeQuery, hashOf, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";

const DEFAULT = "amq.default";
const SAYS = { headers: "headers", properties: "properties" };

/** @param {string} vhost */
function useExchanges(vhost) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    get(path`/exchanges/${vhost}` + "?columns=name").then(
      (found) => setNames(found.map((/** @type {any} */ { name }) => name || DEFAULT)),
      () => setNames([]),
    );
  }, [vhost]);
  return names;
}

/** @param {{vhost: string, kind: string, name: string}} properties */
function Thing({ vhost, kind, name }) {
  if (!name) return html`<em>default exchange</em>`;
  return html`<a href=${hashOf([kind === "queue" ? "queues" : "exchanges", vhost, name])}><code>${name}</code></a>`;
}

/** @param {{vhost: string, binding: any}} properties */
function Binding({ vhost, binding }) {
  const { matched, source, destination, destination_type, routing_key, arguments: table, reason } = binding;
  return html`<li class=${matched ? "way matched" : "way"}>
    <strong>${matched ? "✓ goes on" : "✗ does not"}</strong>
    <span><${Thing} vhost=${vhost} kind="exchange" name=${source} /> → <${Thing} vhost=${vhost} kind=${destination_type} name=${destination} />
      ${routing_key !== "" && html` <small>key <code>${routing_key}</code></small>`}
      ${Object.keys(table ?? {}).length > 0 && html` <small>arguments <code>${value(table)}</code></small>`}</span>
    <span>${reason}</span>
  </li>`;
}

/** @param {{vhost: string, found: any}} properties */
function Result({ vhost, found }) {
  const [onlyMatched, setOnlyMatched] = useState(false);
  const bindings = found.bindings.filter((/** @type {any} */ { matched }) => matched || !onlyMatched);
  return html`<section aria-labelledby="reached" aria-live="polite">
    <h2 id="reached">${found.queues.length ? `Reaches ${counted(found.queues.length, "queue")}` : "Reaches no queue"}</h2>
    ${found.by_chance && html`<p>Chance decides: these are the queues that it may reach.</p>`}
    ${found.unroutable_reason && html`<p class="alarm">${found.unroutable_reason}</p>`}
    <ul class="reached">${found.queues.map((/** @type {any} */ name) => html`<li><${Thing} vhost=${vhost} kind="queue" name=${name} /></li>`)}</ul>
    <div class="over"><h2>Bindings on its way</h2>
      <label><input type="checkbox" checked=${onlyMatched} onChange=${() => setOnlyMatched(!onlyMatched)} /> Only those that match</label></div>
    ${bindings.length === 0 ? html`<p class="nothing">None.</p>` : html`<ol class="way-list">${bindings.map((/** @type {any} */ binding) => html`<${Binding} vhost=${vhost} binding=${binding} />`)}</ol>`}
  </section>`;
}

/** @param {{vhost?: string}} properties */
export function RouteTest({ vhost: asked }) {
  const { query } = useSignal(route);
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const vhosts = session.permissions.map(({ vhost }) => vhost);
  const [fields, change] = useFields({
    vhost: asked ?? vhosts[0] ?? "/", exchange: query.exchange ?? "amq.topic", routing_key: query.key ?? "", headers: query.headers ?? "", properties: "", payload: "",
  });
  const names = useExchanges(fields.vhost);
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    document.title = "Route tester – EmberMQ";
  }, []);
  async function test() {
    const { vhost, exchange, routing_key, headers, properties, payload } = fields;
    changeQuery({ exchange, key: routing_key, headers });
    const told = { routing_key, headers: tableOf("headers", headers), properties: tableOf("properties", properties), ...(payload ? { payload } : {}) };
    try {
      setFound({ vhost, ...(await ask("POST", path`/exchanges/${vhost}/${exchange || DEFAULT}/explain`, told)) });
    } catch (error) {
      throw error instanceof Refused && error.status === 404 ? new Error(`no exchange '${exchange}' in vhost '${vhost}'`) : error;
    }
  }
  return html`<h1>Route tester</h1>
    <p>Where would a message go, and why? Nothing is published.</p>
    <${Form} label="Test a route" verb="Test" submit=${test} says=${SAYS}>
      <div class="fields">
        ${vhosts.length > 1 && html`<${Field} label="Virtual host" name="vhost" choices=${vhosts} value=${fields.vhost} onInput=${change("vhost")} />`}
        <${Field} label="Exchange" name="exchange" suggestions=${names} value=${fields.exchange} onInput=${change("exchange")} hint="amq.default is the default exchange" />
        <${Field} label="Routing key" name="routing_key" value=${fields.routing_key} onInput=${change("routing_key")} />
        <${Field} label="Headers" name="headers" value=${fields.headers} onInput=${change("headers")} hint=${'a JSON object: {"country": "PE"}'} />
        <${Field} label="Properties" name="properties" value=${fields.properties} onInput=${change("properties")} hint=${'a JSON object: {"priority": 5, "type": "order"}'} />
        <${Field} label="Body" name="payload" value=${fields.payload} onInput=${change("payload")} hint="only where an exchange looks at it" />
      </div>
    <//>
    ${found && html`<${Result} vhost=${found.vhost} found=${found} />`}`;
}
