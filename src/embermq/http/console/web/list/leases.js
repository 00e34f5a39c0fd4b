// @ts-check
/** The list of open leases. */

import { html } from "../vendor/preact-htm.js";
import { named, queueLink, sum, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, duration, number, size, time } from "../lib/format.js";
import { may } from "../lib/permission.js";

/** @param {any} lease @param {string} verb @param {unknown} [body] */
const act = ({ vhost, queue, name }, verb, body) => ask("POST", path`/leases/${vhost}/${queue}/${name}/` + verb, body);

/** @type {Pick<import("../page/list.js").Action, "may" | "names">} */
const COMMON = {
  may: (session, lease) => may(session, "read", lease.vhost, lease.queue),
  names: (lease) => html`<code>${lease.name}</code> <small>of ${lease.queue} in ${lease.vhost}</small>`,
};

/** @type {import("../page/list.js").List} */
export const LEASES = {
  step: "leases",
  title: "Leases",
  noun: "lease",
  path: "/leases",
  isWhole: true,
  about: "Messages that are out under a name, until they are settled all at once or go back to their places.",
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
  actions: [
    {
      ...COMMON,
      verb: "Renew",
      isSafe: true,
      fields: [{ name: "timeout_ms", label: "Expires after", type: "number", unit: "ms", isRequired: true, hint: "from now; 0: never" }],
      loss: () => "They expire later.",
      act: (lease, { timeout_ms }) => act(lease, "renew", { timeout_ms: Number(timeout_ms) }),
    },
    {
      ...COMMON,
      verb: "Release",
      loss: (leases) => `${counted(sum(leases, "count"), "message")} go back to their places, and to other consumers. What the holders have done with them may be done twice.`,
      act: (lease) => act(lease, "release"),
    },
    {
      ...COMMON,
      verb: "Settle",
      loss: (leases) => `${counted(sum(leases, "count"), "message")} are acked and gone. This cannot be undone.`,
      act: (lease) => act(lease, "settle"),
    },
  ],
};
