// @ts-check
/** The lists: what each shows of a thing, where the API has it, and what may be done with several at once. */

import { html } from "../vendor/preact-htm.js";
import { path } from "../lib/api.js";
import { counted, duration, number, size, time, value } from "../lib/format.js";
import { isAdministrator, makesPolicies, may, mayEnter, vhostsToConfigure } from "../lib/permission.js";
import { hashOf } from "../lib/router.js";

/** @typedef {import("../lib/permission.js").Session} Session */
/** @typedef {import("../component/table.js").Column} Column */
/**
 * @typedef {{
 *   label: string, verb: string, path: (item: any) => string,
 *   may: (session: Session, item: any) => boolean, names: (item: any) => any, loss: (items: any[]) => string,
 * }} Action  `loss`: what is lost with them, in words
 * @typedef {{
 *   step: string, title: string, noun: string, path: string, columns: Column[], keyOf: (item: any) => string,
 *   actions?: Action[], may?: (session: Session) => boolean, isWhole?: boolean, about?: string, searches?: string,
 *   create?: {label: string, href: string, may: (session: Session) => boolean},
 * }} List  `isWhole`: the API has it in one piece only
 */

const rate = (/** @type {any} */ details) => (details?.rate ? number(details.rate) : "0");
const sum = (/** @type {any[]} */ items, /** @type {string} */ key) => items.reduce((total, item) => total + (item[key] ?? 0), 0);
const named = (/** @type {string} */ name) => html`<code>${name}</code>`;
const inVhost = (/** @type {any} */ item) => html`<code>${item.name}</code> <small>in ${item.vhost}</small>`;
const yes = (/** @type {boolean} */ is) => (is ? "yes" : "no");
const keyInVhost = (/** @type {any} */ item) => `${item.name} in ${item.vhost}`;
const details = (/** @type {Record<string, unknown>} */ table) =>
  Object.entries(table ?? {}).map(([name, given]) => html`<div class="argument"><code>${name}</code> ${value(given)}</div>`);

/** @param {string} vhost @param {string} name @param {Session} session */
export function queueLink(vhost, name, session) {
  if (!mayEnter(session, vhost)) return named(name);
  return html`<a href=${hashOf(["queues", vhost, name])}><code>${name}</code></a>`;
}

/** @type {Column} */
const VHOST = { label: "Virtual host", sort: "vhost", cell: (item) => named(item.vhost) };
/** @type {Column} */
const USER = { label: "User", sort: "user", cell: (item) => named(item.user) };

/** @type {List} */
const QUEUES = {
  step: "queues",
  title: "Queues",
  noun: "queue",
  path: "/queues",
  keyOf: keyInVhost,
  create: { label: "Declare a queue", href: "#/declare/queue", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [
    { label: "Name", sort: "name", cell: (queue, session) => queueLink(queue.vhost, queue.name, session) },
    VHOST,
    { label: "Type", sort: "type", cell: (queue) => queue.type },
    { label: "Durable", sort: "durable", isExtra: true, cell: (queue) => yes(queue.durable) },
    { label: "Policy", sort: "policy", isExtra: true, cell: (queue) => queue.policy },
    { label: "Ready", sort: "messages_ready", isNumber: true, cell: (queue) => number(queue.messages_ready) },
    { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (queue) => number(queue.messages_unacknowledged) },
    { label: "Size", sort: "message_bytes", isNumber: true, isExtra: true, cell: (queue) => size(queue.message_bytes) },
    { label: "Consumers", sort: "consumers", isNumber: true, cell: (queue) => number(queue.consumers) },
    { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (queue) => rate(queue.message_stats?.publish_details) },
    { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (queue) => rate(queue.message_stats?.deliver_get_details) },
    { label: "Acks/s", sort: "message_stats.ack_details.rate", isNumber: true, isExtra: true, cell: (queue) => rate(queue.message_stats?.ack_details) },
  ],
  actions: [
    {
      label: "Purge",
      verb: "Purge",
      path: (queue) => path`/queues/${queue.vhost}/${queue.name}/contents`,
      may: (session, queue) => queue.type !== "stream" && may(session, "read", queue.vhost, queue.name),
      names: inVhost,
      loss: (queues) => `${counted(sum(queues, "messages_ready"), "ready message")} will be deleted. This cannot be undone.`,
    },
    {
      label: "Delete",
      verb: "Delete",
      path: (queue) => path`/queues/${queue.vhost}/${queue.name}`,
      may: (session, queue) => may(session, "configure", queue.vhost, queue.name),
      names: inVhost,
      loss: (queues) =>
        `${counted(sum(queues, "messages"), "message")} will be lost and ${counted(sum(queues, "consumers"), "consumer")} cancelled. This cannot be undone.`,
    },
  ],
};

/** @type {List} */
const EXCHANGES = {
  step: "exchanges",
  title: "Exchanges",
  noun: "exchange",
  path: "/exchanges",
  keyOf: keyInVhost,
  create: { label: "Declare an exchange", href: "#/declare/exchange", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [
    { label: "Name", sort: "name", cell: (exchange) => (exchange.name ? named(exchange.name) : html`<em>default exchange</em>`) },
    VHOST,
    { label: "Type", sort: "type", cell: (exchange) => exchange.type },
    { label: "Durable", sort: "durable", cell: (exchange) => yes(exchange.durable) },
    { label: "Auto-delete", sort: "auto_delete", isExtra: true, cell: (exchange) => yes(exchange.auto_delete) },
    { label: "Internal", sort: "internal", isExtra: true, cell: (exchange) => yes(exchange.internal) },
    { label: "Arguments", isExtra: true, cell: (exchange) => details(exchange.arguments) },
    { label: "Policy", sort: "policy", isExtra: true, cell: (exchange) => exchange.policy },
    { label: "In/s", sort: "message_stats.publish_in_details.rate", isNumber: true, cell: (exchange) => rate(exchange.message_stats?.publish_in_details) },
    { label: "Out/s", sort: "message_stats.publish_out_details.rate", isNumber: true, cell: (exchange) => rate(exchange.message_stats?.publish_out_details) },
  ],
  actions: [
    {
      label: "Delete",
      verb: "Delete",
      path: (exchange) => path`/exchanges/${exchange.vhost}/${exchange.name}`,
      may: (session, exchange) =>
        exchange.name !== "" && !exchange.name.startsWith("amq.") && may(session, "configure", exchange.vhost, exchange.name),
      names: inVhost,
      loss: () => "Their bindings go with them, and messages published to them will be refused.",
    },
  ],
};

/** @param {any} binding */
const bindingPath = (binding) => {
  const kind = binding.destination_type === "queue" ? "q" : "e";
  return path`/bindings/${binding.vhost}/e/${binding.source}/${kind}/${binding.destination}/${binding.properties_key}`;
};

/** @type {List} */
const BINDINGS = {
  step: "bindings",
  title: "Bindings",
  noun: "binding",
  path: "/bindings",
  searches: "part of a routing key",
  keyOf: (binding) => JSON.stringify([binding.vhost, binding.source, binding.destination_type, binding.destination, binding.properties_key]),
  columns: [
    { label: "Exchange", sort: "source", cell: (binding) => (binding.source ? named(binding.source) : html`<em>default exchange</em>`) },
    { label: "Routing key", sort: "routing_key", cell: (binding) => named(binding.routing_key) },
    { label: "To", sort: "destination", cell: (binding, session) =>
        binding.destination_type === "queue"
          ? queueLink(binding.vhost, binding.destination, session)
          : html`<code>${binding.destination}</code> <small>exchange</small>` },
    { label: "Arguments", cell: (binding) => details(binding.arguments) },
    VHOST,
  ],
  actions: [
    {
      label: "Unbind",
      verb: "Unbind",
      path: bindingPath,
      may: (session, binding) =>
        binding.source !== "" && may(session, "read", binding.vhost, binding.source) && may(session, "write", binding.vhost, binding.destination),
      names: (binding) => html`<code>${binding.source}</code> → <code>${binding.destination}</code> <small>${binding.routing_key}</small>`,
      loss: () => "Messages will not take these ways any more.",
    },
  ],
};

/** @type {List} */
const CONNECTIONS = {
  step: "connections",
  title: "Connections",
  noun: "connection",
  path: "/connections",
  keyOf: (connection) => connection.name,
  columns: [
    { label: "Name", sort: "name", cell: (connection) => html`<code>${connection.name}</code>${connection.client_properties?.connection_name && html` <small>${value(connection.client_properties.connection_name)}</small>`}` },
    VHOST,
    USER,
    { label: "State", sort: "state", cell: (connection) => connection.state },
    { label: "TLS", sort: "ssl", isExtra: true, cell: (connection) => yes(connection.ssl) },
    { label: "Client", isExtra: true, cell: (connection) => [connection.client_properties?.product, connection.client_properties?.version].filter(Boolean).map(value).join(" ") },
    { label: "Channels", sort: "channels", isNumber: true, cell: (connection) => number(connection.channels) },
    { label: "In/s", sort: "recv_oct_details.rate", isNumber: true, cell: (connection) => size(connection.recv_oct_details?.rate ?? 0) },
    { label: "Out/s", sort: "send_oct_details.rate", isNumber: true, cell: (connection) => size(connection.send_oct_details?.rate ?? 0) },
    { label: "Since", sort: "connected_at", cell: (connection) => time(connection.connected_at) },
  ],
  actions: [
    {
      label: "Close",
      verb: "Close",
      path: (connection) => path`/connections/${connection.name}`,
      may: (session, connection) => isAdministrator(session) || connection.user === session.name,
      names: (connection) => named(connection.name),
      loss: (connections) =>
        `${counted(sum(connections, "channels"), "channel")} will be closed; exclusive queues of these connections are deleted with their messages, and unacked messages go back to their queues. Clients may connect again.`,
    },
  ],
};

/** @type {List} */
const CHANNELS = {
  step: "channels",
  title: "Channels",
  noun: "channel",
  path: "/channels",
  keyOf: (channel) => channel.name,
  columns: [
    { label: "Name", sort: "name", cell: (channel) => named(channel.name) },
    VHOST,
    USER,
    { label: "State", sort: "state", cell: (channel) => channel.state },
    { label: "Mode", cell: (channel) => (channel.transactional ? "transactional" : channel.confirm ? "confirms" : "") },
    { label: "Consumers", sort: "consumer_count", isNumber: true, cell: (channel) => number(channel.consumer_count) },
    { label: "Prefetch", sort: "prefetch_count", isNumber: true, cell: (channel) => (channel.prefetch_count ? number(channel.prefetch_count) : "any") },
    { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (channel) => number(channel.messages_unacknowledged) },
    { label: "Unconfirmed", sort: "messages_unconfirmed", isNumber: true, cell: (channel) => number(channel.messages_unconfirmed) },
    { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (channel) => rate(channel.message_stats?.publish_details) },
    { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (channel) => rate(channel.message_stats?.deliver_get_details) },
  ],
};

/** @type {Column[]} */
export const CONSUMER_COLUMNS = [
  { label: "Consumer tag", sort: "consumer_tag", cell: (consumer) => named(consumer.consumer_tag) },
  { label: "Queue", sort: "queue.name", cell: (consumer, session) => queueLink(consumer.queue.vhost, consumer.queue.name, session) },
  { label: "Channel", sort: "channel_details.name", cell: (consumer) => named(consumer.channel_details.name ?? "") },
  { label: "User", sort: "channel_details.user", cell: (consumer) => named(consumer.channel_details.user ?? "") },
  { label: "Acks", sort: "ack_required", cell: (consumer) => (consumer.ack_required ? "manual" : "automatic") },
  { label: "Active", sort: "active", cell: (consumer) => yes(consumer.active) },
  { label: "Exclusive", sort: "exclusive", isExtra: true, cell: (consumer) => yes(consumer.exclusive) },
  { label: "Prefetch", sort: "prefetch_count", isNumber: true, cell: (consumer) => (consumer.prefetch_count ? number(consumer.prefetch_count) : "any") },
  { label: "Arguments", isExtra: true, cell: (consumer) => details(consumer.arguments) },
];

/** @type {List} */
const CONSUMERS = {
  step: "consumers",
  title: "Consumers",
  noun: "consumer",
  path: "/consumers",
  searches: "part of a consumer tag",
  keyOf: (consumer) => JSON.stringify([consumer.channel_details.name, consumer.consumer_tag]),
  columns: CONSUMER_COLUMNS,
};

/** @type {List} */
const USERS = {
  step: "users",
  title: "Users",
  noun: "user",
  path: "/users",
  may: isAdministrator,
  keyOf: (user) => user.name,
  columns: [
    { label: "Name", sort: "name", cell: (user) => named(user.name) },
    { label: "Tags", cell: (user) => user.tags.join(", ") },
    { label: "Password", cell: (user) => (user.password_hash ? "set" : "none") },
    { label: "Limits", cell: (user) => details(user.limits) },
  ],
  actions: [
    {
      label: "Delete",
      verb: "Delete",
      path: (user) => path`/users/${user.name}`,
      may: (session, user) => isAdministrator(session) && user.name !== session.name,
      names: (user) => named(user.name),
      loss: () => "Their permissions are lost, and their connections are closed.",
    },
  ],
};

/** @type {List} */
const VHOSTS = {
  step: "vhosts",
  title: "Virtual hosts",
  noun: "virtual host",
  path: "/vhosts",
  keyOf: (vhost) => vhost.name,
  columns: [
    { label: "Name", sort: "name", cell: (vhost) => named(vhost.name) },
    { label: "Description", sort: "description", cell: (vhost) => vhost.description },
    { label: "Queue type", sort: "default_queue_type", isExtra: true, cell: (vhost) => vhost.default_queue_type },
    { label: "Protected", sort: "protected_from_deletion", isExtra: true, cell: (vhost) => yes(vhost.protected_from_deletion) },
    { label: "Tracing", sort: "tracing", isExtra: true, cell: (vhost) => yes(vhost.tracing) },
    { label: "Ready", sort: "messages_ready", isNumber: true, cell: (vhost) => number(vhost.messages_ready) },
    { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (vhost) => number(vhost.messages_unacknowledged) },
    { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (vhost) => rate(vhost.message_stats?.publish_details) },
    { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (vhost) => rate(vhost.message_stats?.deliver_get_details) },
  ],
  actions: [
    {
      label: "Delete",
      verb: "Delete",
      path: (vhost) => path`/vhosts/${vhost.name}`,
      may: (session, vhost) => isAdministrator(session) && !vhost.protected_from_deletion,
      names: (vhost) => named(vhost.name),
      loss: (vhosts) =>
        `All their queues with ${counted(sum(vhosts, "messages"), "message")}, their exchanges, bindings, policies and permissions are lost. This cannot be undone.`,
    },
  ],
};

/** @type {List} */
const POLICIES = {
  step: "policies",
  title: "Policies",
  noun: "policy",
  path: "/policies",
  keyOf: keyInVhost,
  columns: [
    { label: "Name", sort: "name", cell: (policy) => named(policy.name) },
    VHOST,
    { label: "Pattern", sort: "pattern", cell: (policy) => named(policy.pattern) },
    { label: "Applies to", sort: "apply-to", cell: (policy) => policy["apply-to"] },
    { label: "Definition", cell: (policy) => details(policy.definition) },
    { label: "Priority", sort: "priority", isNumber: true, cell: (policy) => number(policy.priority) },
  ],
  actions: [
    {
      label: "Delete",
      verb: "Delete",
      path: (policy) => path`/policies/${policy.vhost}/${policy.name}`,
      may: (session, policy) => makesPolicies(session) && mayEnter(session, policy.vhost),
      names: inVhost,
      loss: () => "Queues and exchanges under these policies lose their definitions at once: limits, dead lettering, expiry.",
    },
  ],
};

/** @type {List} */
const LEASES = {
  step: "leases",
  title: "Leases",
  noun: "lease",
  path: "/leases",
  isWhole: true,
  keyOf: (lease) => JSON.stringify([lease.vhost, lease.queue, lease.name]),
  columns: [
    { label: "Name", sort: "name", cell: (lease) => named(lease.name) },
    { label: "Queue", sort: "queue", cell: (lease, session) => queueLink(lease.vhost, lease.queue, session) },
    VHOST,
    { label: "State", sort: "state", cell: (lease) => lease.state },
    { label: "Messages", sort: "count", isNumber: true, cell: (lease) => number(lease.count) },
    { label: "Size", sort: "bytes", isNumber: true, cell: (lease) => size(lease.bytes) },
    { label: "Created", sort: "created_ms", cell: (lease) => time(lease.created_ms) },
    { label: "Expires in", sort: "expires_ms", cell: (lease) => (lease.expires_ms ? duration(Math.max(0, (lease.expires_ms - Date.now()) / 1000)) : "never") },
  ],
};

export const LISTS = [QUEUES, EXCHANGES, BINDINGS, CONNECTIONS, CHANNELS, CONSUMERS, LEASES, POLICIES, VHOSTS, USERS];
