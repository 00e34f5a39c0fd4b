// @ts-check
/** The list of connections. */

import { html } from "../vendor/preact-htm.js";
import { connectionLink, named, sum, USER, VHOST, yes } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, number, size, time, value } from "../lib/format.js";
import { isAdministrator } from "../lib/permission.js";

/** @type {import("../page/list.js").Action} */
export const CLOSE = {
  verb: "Close",
  fields: [{ name: "reason", label: "Reason", hint: "told to the client, and in the log" }],
  may: (session, connection) => isAdministrator(session) || connection.user === session.name,
  names: (connection) => named(connection.name),
  loss: (connections) =>
    `${counted(sum(connections, "channels"), "channel")} will be closed; exclusive queues of these connections are deleted with their messages, and unacked messages go back to their queues. Clients may connect again.`,
  act: (connection, { reason }) => ask("DELETE", path`/connections/${connection.name}`, undefined, reason ? { "x-reason": reason } : {}),
};

/** The name that a client gave its connection. @param {any} connection */
export const givenName = ({ client_properties }) => client_properties?.connection_name && value(client_properties.connection_name);

/** @type {import("../page/list.js").List} */
export const CONNECTIONS = {
  step: "connections",
  title: "Connections",
  noun: "connection",
  path: "/connections",
  inVhost: (vhost) => path`/vhosts/${vhost}/connections`,
  keyOf: (connection) => connection.name,
  columns: [
    { label: "Name", sort: "name", cell: (connection) => html`${connectionLink(connection.name)} <small>${givenName(connection)}</small>` },
    VHOST,
    USER,
    { label: "State", sort: "state", cell: (connection) => connection.state },
    { label: "TLS", sort: "ssl", isExtra: true, cell: (connection) => yes(connection.ssl) },
    { label: "Mechanism", sort: "auth_mechanism", isExtra: true, cell: (connection) => connection.auth_mechanism },
    { label: "Client", isExtra: true, cell: (connection) => [connection.client_properties?.product, connection.client_properties?.version].filter(Boolean).map(value).join(" ") },
    { label: "Heartbeat", sort: "timeout", isNumber: true, isExtra: true, cell: (connection) => `${number(connection.timeout)} s` },
    { label: "Channels", sort: "channels", isNumber: true, cell: (connection) => number(connection.channels) },
    { label: "In/s", sort: "recv_oct_details.rate", isNumber: true, cell: (connection) => size(connection.recv_oct_details?.rate ?? 0) },
    { label: "Out/s", sort: "send_oct_details.rate", isNumber: true, cell: (connection) => size(connection.send_oct_details?.rate ?? 0) },
    { label: "Since", sort: "connected_at", cell: (connection) => time(connection.connected_at) },
  ],
  actions: [CLOSE],
};
