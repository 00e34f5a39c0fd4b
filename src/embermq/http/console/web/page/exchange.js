// @ts-check
/** One exchange: rates, arguments and their sources, bindings both ways. */

import { html } from "../vendor/preact-htm.js";
import { BindingTable } from "../component/bindings.js";
import { details, inVhost, policyLink, rate, vhostLink } from "../component/cell.js";
import { Facts, Section, ThingPage } from "../component/thing.js";
import { ask, path } from "../lib/api.js";
import { counted, number } from "../lib/format.js";
import { may } from "../lib/permission.js";
import { hashOf } from "../lib/router.js";
import { FROM, TO } from "../list/bindings.js";
import { deleteExchange, EXCHANGES, mayDeleteExchange } from "../list/exchanges.js";

/** @type {import("./list.js").Action[]} */
const ACTIONS = [
  {
    verb: "Discard delayed",
    may: (session, exchange) => exchange.messages_delayed > 0 && may(session, "write", exchange.vhost, exchange.name),
    names: inVhost,
    loss: ([exchange]) => `${counted(exchange.messages_delayed, "message")} that wait will never be routed. This cannot be undone.`,
    act: (exchange) => ask("DELETE", path`/exchanges/${exchange.vhost}/${exchange.name}/delayed`),
  },
  {
    verb: "Delete",
    may: mayDeleteExchange,
    names: inVhost,
    loss: () => "Its bindings go with it, and messages published to it will be refused.",
    act: deleteExchange,
  },
];

/** @param {{vhost: string, name: string}} properties */
export function ExchangePage({ vhost, name }) {
  const isDefault = name === "amq.default";
  const address = path`/exchanges/${vhost}/${name}`;
  const show = (/** @type {any} */ exchange, /** @type {any} */ session) => html`
    <${Facts} facts=${[
      ["Virtual host", vhostLink(vhost, session)],
      ["Type", exchange.type],
      ["Durable", exchange.durable ? "yes" : "no"],
      ["Auto-delete", exchange.auto_delete && "yes"],
      ["Internal", exchange.internal && "yes"],
      ["In", `${rate(exchange.message_stats?.publish_in_details)}/s`],
      ["Out", `${rate(exchange.message_stats?.publish_out_details)}/s`],
      ["Delayed", exchange.messages_delayed > 0 && number(exchange.messages_delayed)],
      ["Policy", exchange.policy && policyLink("policies", vhost, exchange.policy, session)],
      ["Operator policy", exchange.operator_policy && policyLink("operator-policies", vhost, exchange.operator_policy, session)],
    ]} />
    <${Section} id="arguments" title="Arguments">
      ${Object.keys(exchange.arguments).length ? details(exchange.arguments) : html`<p class="nothing">None declared.</p>`}
      ${Object.keys(exchange.effective_policy_definition ?? {}).length > 0 && html`<h3>By policy</h3>${details(exchange.effective_policy_definition)}`}
    <//>
    <${Section} id="bindings" title="Bindings">
      ${!isDefault && may(session, "read", vhost, name) && html`<p><a class="button" href=${hashOf(["bind"], { vhost, source: name })}>Bind</a></p>`}
      <${BindingTable} title="From here" address=${address + "/bindings/source?page=1&page_size=100"} end=${TO} />
      ${!isDefault && html`<${BindingTable} title="To here" address=${address + "/bindings/destination?page=1&page_size=100"} end=${FROM} />`}
    <//>`;
  const shown = isDefault ? html`<em>default exchange</em>` : html`<code>${name}</code>`;
  return html`<${ThingPage} address=${address} name=${shown} title=${name} noun="exchange" list=${EXCHANGES} actions=${ACTIONS} show=${show} />`;
}
