// @ts-check
/** The list of queues. */

import { inVhost, keyInVhost, policyLink, queueLink, rate, sum, VHOST, yes } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, number, size } from "../lib/format.js";
import { may, vhostsToConfigure } from "../lib/permission.js";
import { go } from "../lib/router.js";

/** @type {import("../page/list.js").Action[]} */
export const QUEUE_ACTIONS = [
  {
    verb: "Move messages",
    isSafe: true,
    fields: [
      { name: "destination", label: "To the queue", isRequired: true, hint: "in the same virtual host; every ready message goes there, as a task in the background" },
      { name: "limit", label: "At most", type: "number", unit: "messages of each queue", hint: "all, where this is empty" },
    ],
    may: (session, queue) => queue.type !== "stream" && may(session, "read", queue.vhost, queue.name),
    names: inVhost,
    loss: (queues) => `${counted(sum(queues, "messages_ready"), "ready message")} will be moved. Unacked messages stay.`,
    act: (queue, { destination, limit }) =>
      ask("POST", path`/queues/${queue.vhost}/${queue.name}/messages/move`, { destination, limit: limit ? Number(limit) : null }),
    then: () => go("tasks"),
  },
  {
    verb: "Purge",
    may: (session, queue) => queue.type !== "stream" && may(session, "read", queue.vhost, queue.name),
    names: inVhost,
    loss: (queues) => `${counted(sum(queues, "messages_ready"), "ready message")} will be deleted. This cannot be undone.`,
    act: (queue) => ask("DELETE", path`/queues/${queue.vhost}/${queue.name}/contents`),
  },
  {
    verb: "Delete",
    may: (session, queue) => may(session, "configure", queue.vhost, queue.name),
    names: inVhost,
    loss: (queues) =>
      `${counted(sum(queues, "messages"), "message")} will be lost and ${counted(sum(queues, "consumers"), "consumer")} cancelled. This cannot be undone.`,
    act: (queue) => ask("DELETE", path`/queues/${queue.vhost}/${queue.name}`),
  },
];

/** @type {import("../page/list.js").List} */
export const QUEUES = {
  step: "queues",
  title: "Queues",
  noun: "queue",
  path: "/queues",
  inVhost: (vhost) => path`/queues/${vhost}`,
  keyOf: keyInVhost,
  create: { label: "Declare a queue", href: "#/declare/queue", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [
    { label: "Name", sort: "name", cell: (queue, session) => queueLink(queue.vhost, queue.name, session) },
    VHOST,
    { label: "Type", sort: "type", cell: (queue) => queue.type },
    { label: "Durable", sort: "durable", isExtra: true, cell: (queue) => yes(queue.durable) },
    { label: "Policy", sort: "policy", isExtra: true, cell: (queue, session) => queue.policy && policyLink("policies", queue.vhost, queue.policy, session) },
    { label: "Operator policy", sort: "operator_policy", isExtra: true, cell: (queue, session) => queue.operator_policy && policyLink("operator-policies", queue.vhost, queue.operator_policy, session) },
    { label: "Ready", sort: "messages_ready", isNumber: true, cell: (queue) => number(queue.messages_ready) },
    { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (queue) => number(queue.messages_unacknowledged) },
    { label: "Delayed", sort: "messages_delayed", isNumber: true, isExtra: true, cell: (queue) => number(queue.messages_delayed) },
    { label: "Size", sort: "message_bytes", isNumber: true, isExtra: true, cell: (queue) => size(queue.message_bytes) },
    { label: "Consumers", sort: "consumers", isNumber: true, cell: (queue) => number(queue.consumers) },
    { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (queue) => rate(queue.message_stats?.publish_details) },
    { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (queue) => rate(queue.message_stats?.deliver_get_details) },
    { label: "Acks/s", sort: "message_stats.ack_details.rate", isNumber: true, isExtra: true, cell: (queue) => rate(queue.message_stats?.ack_details) },
  ],
  actions: QUEUE_ACTIONS,
};
