// @ts-check
/** The list of virtual hosts. */

import { named, rate, sum, vhostLink, yes } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, number } from "../lib/format.js";
import { isAdministrator } from "../lib/permission.js";

/** @type {import("../page/list.js").Action} */
export const DELETE_VHOST = {
  verb: "Delete",
  may: (session, vhost) => isAdministrator(session) && !vhost.protected_from_deletion,
  names: (vhost) => named(vhost.name),
  loss: (vhosts) =>
    `All their queues with ${counted(sum(vhosts, "messages"), "message")}, their exchanges, bindings, policies and permissions are lost. This cannot be undone.`,
  act: (vhost) => ask("DELETE", path`/vhosts/${vhost.name}`),
};

/** @type {import("../page/list.js").List} */
export const VHOSTS = {
  step: "vhosts",
  title: "Virtual hosts",
  noun: "virtual host",
  path: "/vhosts",
  keyOf: (vhost) => vhost.name,
  create: { label: "Add a virtual host", href: "#/add/vhost", may: isAdministrator },
  columns: [
    { label: "Name", sort: "name", cell: (vhost, session) => vhostLink(vhost.name, session) },
    { label: "Description", sort: "description", cell: (vhost) => vhost.description },
    { label: "Tags", isExtra: true, cell: (vhost) => vhost.tags.join(", ") },
    { label: "Queue type", sort: "default_queue_type", isExtra: true, cell: (vhost) => vhost.default_queue_type },
    { label: "Protected", sort: "protected_from_deletion", isExtra: true, cell: (vhost) => yes(vhost.protected_from_deletion) },
    { label: "Tracing", sort: "tracing", isExtra: true, cell: (vhost) => yes(vhost.tracing) },
    { label: "Ready", sort: "messages_ready", isNumber: true, cell: (vhost) => number(vhost.messages_ready) },
    { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (vhost) => number(vhost.messages_unacknowledged) },
    { label: "Delayed", sort: "messages_delayed", isNumber: true, isExtra: true, cell: (vhost) => number(vhost.messages_delayed) },
    { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (vhost) => rate(vhost.message_stats?.publish_details) },
    { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (vhost) => rate(vhost.message_stats?.deliver_get_details) },
  ],
  actions: [DELETE_VHOST],
};
