// @ts-check
/** The list of delayed messages: how many wait for which exchange or queue. */

import { html } from "../vendor/preact-htm.js";
import { exchangeLink, queueLink, sum, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, number } from "../lib/format.js";
import { may } from "../lib/permission.js";

const WHY = { published: "published with a delay", retried: "given back, for a later try" };

/** @type {import("../page/list.js").List} */
export const DELAYED = {
  step: "delayed",
  title: "Delayed messages",
  noun: "destination",
  path: "/delayed",
  searches: "part of a destination's name",
  keyOf: ({ vhost, destination_type, destination, reason }) => JSON.stringify([vhost, destination_type, destination, reason]),
  columns: [
    {
      label: "Wait for",
      sort: "destination",
      cell: ({ vhost, destination, destination_type }, session) =>
        destination_type === "queue" ? queueLink(vhost, destination, session) : html`${exchangeLink(vhost, destination, session)} <small>exchange</small>`,
    },
    VHOST,
    { label: "Why", sort: "reason", cell: ({ reason }) => WHY[/** @type {keyof typeof WHY} */ (reason)] },
    { label: "Messages", sort: "messages", isNumber: true, cell: ({ messages }) => number(messages) },
  ],
  actions: [
    {
      verb: "Discard",
      may: (session, { vhost, destination, destination_type }) => may(session, destination_type === "queue" ? "read" : "write", vhost, destination),
      names: ({ destination, destination_type, vhost }) => html`<code>${destination || "default exchange"}</code> <small>${destination_type} in ${vhost}</small>`,
      loss: (items) => `${counted(sum(items, "messages"), "message")} that wait will never be delivered. This cannot be undone.`,
      act: ({ vhost, destination, destination_type }) =>
        ask("DELETE", path`/${destination_type + "s"}/${vhost}/${destination || "amq.default"}/delayed`),
    },
  ],
};
