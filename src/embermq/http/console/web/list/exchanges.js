// @ts-check
/** The list of exchanges. */

import { details, exchangeLink, inVhost, keyInVhost, policyLink, rate, VHOST, yes } from "../component/cell.js";
import { ask, get, path } from "../lib/api.js";
import { number } from "../lib/format.js";
import { may, vhostsToConfigure } from "../lib/permission.js";
import { bind } from "./bindings.js";

/** Delete an exchange; taken back, it has its bindings again. @param {any} exchange */
export async function deleteExchange(exchange) {
  const { vhost, name, type, durable, auto_delete, internal } = exchange;
  const [out, into] = await Promise.all(
    ["source", "destination"].map((end) => get(path`/exchanges/${vhost}/${name}/bindings/` + end)),
  );
  await ask("DELETE", path`/exchanges/${vhost}/${name}`);
  return async () => {
    await ask("PUT", path`/exchanges/${vhost}/${name}`, { type, durable, auto_delete, internal, arguments: exchange.arguments });
    for (const binding of [...out, ...into]) await bind(binding);
  };
}

/** @param {import("../lib/permission.js").Session} session @param {any} exchange */
export const mayDeleteExchange = (session, exchange) =>
  exchange.name !== "" && !exchange.name.startsWith("amq.") && may(session, "configure", exchange.vhost, exchange.name);

/** @type {import("../page/list.js").List} */
export const EXCHANGES = {
  step: "exchanges",
  title: "Exchanges",
  noun: "exchange",
  path: "/exchanges",
  inVhost: (vhost) => path`/exchanges/${vhost}`,
  keyOf: keyInVhost,
  create: { label: "Declare an exchange", href: "#/declare/exchange", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [
    { label: "Name", sort: "name", cell: (exchange, session) => exchangeLink(exchange.vhost, exchange.name, session) },
    VHOST,
    { label: "Type", sort: "type", cell: (exchange) => exchange.type },
    { label: "Durable", sort: "durable", cell: (exchange) => yes(exchange.durable) },
    { label: "Auto-delete", sort: "auto_delete", isExtra: true, cell: (exchange) => yes(exchange.auto_delete) },
    { label: "Internal", sort: "internal", isExtra: true, cell: (exchange) => yes(exchange.internal) },
    { label: "Arguments", isExtra: true, cell: (exchange) => details(exchange.arguments) },
    { label: "Policy", sort: "policy", isExtra: true, cell: (exchange, session) => exchange.policy && policyLink("policies", exchange.vhost, exchange.policy, session) },
    { label: "Delayed", sort: "messages_delayed", isNumber: true, isExtra: true, cell: (exchange) => number(exchange.messages_delayed) },
    { label: "In/s", sort: "message_stats.publish_in_details.rate", isNumber: true, cell: (exchange) => rate(exchange.message_stats?.publish_in_details) },
    { label: "Out/s", sort: "message_stats.publish_out_details.rate", isNumber: true, cell: (exchange) => rate(exchange.message_stats?.publish_out_details) },
  ],
  actions: [
    {
      verb: "Delete",
      may: mayDeleteExchange,
      names: inVhost,
      loss: () => "Their bindings go with them, and messages published to them will be refused.",
      act: deleteExchange,
    },
  ],
};
