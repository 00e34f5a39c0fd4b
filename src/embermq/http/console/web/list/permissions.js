// @ts-check
/** The lists of permissions: in virtual hosts, and at topic exchanges by routing key. */

import { html } from "../vendor/preact-htm.js";
import { exchangeLink, named, USER, userLink, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { isAdministrator } from "../lib/permission.js";

const TABS = [
  { step: "permissions", title: "Virtual hosts" },
  { step: "topic-permissions", title: "Topics" },
  { step: "permission-test", title: "Test" },
];

/** @param {any} permission */
export async function revoke({ vhost, user, configure, write, read }) {
  await ask("DELETE", path`/permissions/${vhost}/${user}`);
  return () => ask("PUT", path`/permissions/${vhost}/${user}`, { configure, write, read });
}

/** @param {any} permission */
export async function revokeTopic({ vhost, user, exchange, write, read }) {
  await ask("DELETE", path`/topic-permissions/${vhost}/${user}/${exchange}`);
  return () => ask("PUT", path`/topic-permissions/${vhost}/${user}`, { exchange, write, read });
}

/** @param {string} right @returns {import("../component/table.js").Column} */
const pattern = (right) => ({
  label: right[0].toUpperCase() + right.slice(1),
  sort: right,
  cell: (permission) => (permission[right] ? named(permission[right]) : html`<em>nothing</em>`),
});

/** @type {import("../component/table.js").Column[]} */
export const RIGHTS = ["configure", "write", "read"].map(pattern);

/** @type {import("../page/list.js").List} */
export const PERMISSIONS = {
  step: "permissions",
  title: "Permissions",
  noun: "permission",
  path: "/permissions",
  tabs: TABS,
  may: isAdministrator,
  searches: "part of a user's name",
  about: "Regular expressions, found anywhere in a name; the empty one matches nothing.",
  keyOf: ({ user, vhost }) => `${user} in ${vhost}`,
  create: { label: "Give permissions", href: "#/grant", may: isAdministrator },
  columns: [
    { ...USER, cell: ({ user }, session) => userLink(user, session) },
    VHOST,
    ...RIGHTS,
  ],
  actions: [
    {
      verb: "Take away",
      may: isAdministrator,
      names: ({ user, vhost }) => html`<code>${user}</code> <small>in ${vhost}</small>`,
      loss: () => "These users may not use these virtual hosts any more. Connections that are open lose their rights at once.",
      act: revoke,
    },
  ],
};

/** @type {import("../page/list.js").List} */
export const TOPIC_PERMISSIONS = {
  step: "topic-permissions",
  title: "Topic permissions",
  noun: "topic permission",
  path: "/topic-permissions",
  tabs: TABS,
  may: isAdministrator,
  searches: "part of a user's name",
  about: "Which routing keys a user may publish and bind with at a topic exchange. A user without one may use all.",
  keyOf: ({ user, vhost, exchange }) => `${user} at ${exchange} in ${vhost}`,
  create: { label: "Restrict topics", href: "#/grant/topic", may: isAdministrator },
  columns: [
    USER,
    VHOST,
    { label: "Exchange", sort: "exchange", cell: ({ vhost, exchange }, session) => exchangeLink(vhost, exchange, session) },
    ...RIGHTS.slice(1),
  ],
  actions: [
    {
      verb: "Delete",
      may: isAdministrator,
      names: ({ user, exchange, vhost }) => html`<code>${user}</code> at <code>${exchange}</code> <small>in ${vhost}</small>`,
      loss: () => "These users may use every routing key there again.",
      act: revokeTopic,
    },
  ],
};
