// @ts-check
/** The list of bindings. */

import { html } from "../vendor/preact-htm.js";
import { destinationLink, details, exchangeLink, named, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { may, vhostsToConfigure } from "../lib/permission.js";

/** @param {any} binding */
function ends({ vhost, source, destination, destination_type }) {
  return path`/bindings/${vhost}/e/${source}/${destination_type === "queue" ? "q" : "e"}/${destination}`;
}

/** @param {any} binding */
export function bind(binding) {
  return ask("POST", ends(binding), { routing_key: binding.routing_key, arguments: binding.arguments });
}

/** @param {any} binding */
export async function unbind(binding) {
  await ask("DELETE", ends(binding) + path`/${binding.properties_key}`);
  return () => bind(binding);
}

/** @param {any} binding */
export const bindingKey = ({ vhost, source, destination_type, destination, properties_key }) =>
  JSON.stringify([vhost, source, destination_type, destination, properties_key]);

/** @type {import("../page/list.js").Action} */
export const UNBIND = {
  verb: "Unbind",
  may: (session, binding) =>
    binding.source !== "" && may(session, "read", binding.vhost, binding.source) && may(session, "write", binding.vhost, binding.destination),
  names: (binding) => html`<code>${binding.source}</code> → <code>${binding.destination}</code> <small>${binding.routing_key}</small>`,
  loss: () => "Messages will not take these ways any more.",
  act: unbind,
};

/** @type {import("../component/table.js").Column} */
export const FROM = { label: "Exchange", sort: "source", cell: (binding, session) => exchangeLink(binding.vhost, binding.source, session) };
/** @type {import("../component/table.js").Column} */
export const KEY = { label: "Routing key", sort: "routing_key", cell: (binding) => named(binding.routing_key) };
/** @type {import("../component/table.js").Column} */
export const TO = { label: "To", sort: "destination", cell: destinationLink };
/** @type {import("../component/table.js").Column} */
export const ARGUMENTS = { label: "Arguments", cell: (binding) => details(binding.arguments) };

/** @type {import("../page/list.js").List} */
export const BINDINGS = {
  step: "bindings",
  title: "Bindings",
  noun: "binding",
  path: "/bindings",
  inVhost: (vhost) => path`/bindings/${vhost}`,
  searches: "part of a routing key",
  keyOf: bindingKey,
  create: { label: "Bind", href: "#/bind", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [FROM, KEY, TO, ARGUMENTS, VHOST],
  actions: [UNBIND],
};
