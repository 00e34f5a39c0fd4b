// @ts-check
/** The lists of limits: those of virtual hosts, those of users. */

import { html } from "../vendor/preact-htm.js";
import { named, USER, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { number } from "../lib/format.js";
import { isAdministrator } from "../lib/permission.js";

const TABS = [
  { step: "limits", title: "Of virtual hosts" },
  { step: "user-limits", title: "Of users", may: isAdministrator },
];

/** A limit a row. @param {any[]} all */
const rows = (all) => all.flatMap(({ value, ...whose }) => Object.entries(value).map(([name, limit]) => ({ ...whose, name, limit })));

/** @param {any} item */
export function setLimit({ vhost, user, name, limit }) {
  const place = user === undefined ? path`/vhost-limits/${vhost}/${name}` : path`/user-limits/${user}/${name}`;
  return ask("PUT", place, { value: limit });
}

/** @param {any} item */
export async function deleteLimit({ vhost, user, name, limit }) {
  await ask("DELETE", user === undefined ? path`/vhost-limits/${vhost}/${name}` : path`/user-limits/${user}/${name}`);
  return () => setLimit({ vhost, user, name, limit });
}

/** @type {import("../component/table.js").Column[]} */
const COLUMNS = [
  { label: "Limit", sort: "name", cell: ({ name }) => named(name) },
  { label: "Value", sort: "limit", isNumber: true, cell: ({ limit }) => (limit < 0 ? "none" : number(limit)) },
];

/** @param {string} whose @returns {import("../page/list.js").Action[]} */
const actions = (whose) => [
  {
    verb: "Delete",
    may: isAdministrator,
    names: (item) => html`<code>${item.name}</code> <small>of ${item[whose]}</small>`,
    loss: () => "They are not limited any more.",
    act: deleteLimit,
  },
];

/** @type {import("../page/list.js").List} */
export const VHOST_LIMITS = {
  step: "limits",
  title: "Limits",
  noun: "limit",
  path: "/vhost-limits",
  isWhole: true,
  rows,
  tabs: TABS,
  keyOf: ({ vhost, name }) => `${name} of ${vhost}`,
  create: { label: "Set a limit", href: "#/set/limit?of=vhost", may: isAdministrator },
  columns: [VHOST, ...COLUMNS],
  actions: actions("vhost"),
};

/** @type {import("../page/list.js").List} */
export const USER_LIMITS = {
  step: "user-limits",
  title: "Limits",
  noun: "limit",
  path: "/user-limits",
  isWhole: true,
  rows,
  tabs: TABS,
  may: isAdministrator,
  keyOf: ({ user, name }) => `${name} of ${user}`,
  create: { label: "Set a limit", href: "#/set/limit?of=user", may: isAdministrator },
  columns: [USER, ...COLUMNS],
  actions: actions("user"),
};
