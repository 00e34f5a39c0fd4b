// @ts-check
/** What tables show of a thing: names, links to its page where the user may open it, tables of arguments. */

import { html } from "../vendor/preact-htm.js";
import { number, value } from "../lib/format.js";
import { isAdministrator, makesPolicies, mayEnter } from "../lib/permission.js";
import { hashOf } from "../lib/router.js";

/** @typedef {import("../lib/permission.js").Session} Session */
/** @typedef {import("./table.js").Column} Column */

export const named = (/** @type {string} */ name) => html`<code>${name}</code>`;
export const inVhost = (/** @type {any} */ item) => html`<code>${item.name}</code> <small>in ${item.vhost}</small>`;
export const keyInVhost = (/** @type {any} */ item) => `${item.name} in ${item.vhost}`;
export const yes = (/** @type {boolean} */ is) => (is ? "yes" : "no");
export const rate = (/** @type {any} */ details) => (details?.rate ? number(details.rate) : "0");
export const sum = (/** @type {any[]} */ items, /** @type {string} */ key) => items.reduce((total, item) => total + (item[key] ?? 0), 0);

/** @param {string[]} steps @param {any} text */
const link = (steps, text) => html`<a href=${hashOf(steps)}>${text}</a>`;

/** A table of arguments. @param {Record<string, unknown>} table */
export function details(table) {
  return Object.entries(table ?? {}).map(([name, given]) => html`<div class="argument"><code>${name}</code> ${value(given)}</div>`);
}

/** @param {string} vhost @param {string} name @param {Session} session */
export function queueLink(vhost, name, session) {
  return mayEnter(session, vhost) ? link(["queues", vhost, name], named(name)) : named(name);
}

/** @param {string} vhost @param {string} name @param {Session} session */
export function exchangeLink(vhost, name, session) {
  const text = name ? named(name) : html`<em>default exchange</em>`;
  return mayEnter(session, vhost) ? link(["exchanges", vhost, name || "amq.default"], text) : text;
}

/** @param {any} binding @param {Session} session */
export function destinationLink({ vhost, destination, destination_type }, session) {
  if (destination_type === "queue") return queueLink(vhost, destination, session);
  return html`${exchangeLink(vhost, destination, session)} <small>exchange</small>`;
}

/** @param {string} name @param {Session} session */
export function vhostLink(name, session) {
  return isAdministrator(session) ? link(["vhosts", name], named(name)) : named(name);
}

/** @param {string} name @param {Session} session */
export function userLink(name, session) {
  return isAdministrator(session) ? link(["users", name], named(name)) : named(name);
}

export const connectionLink = (/** @type {string} */ name) => link(["connections", name], named(name));
export const channelLink = (/** @type {string} */ name) => link(["channels", name], named(name));

/** @param {string} kind "policies" or "operator-policies" @param {string} vhost @param {string} name @param {Session} session */
export function policyLink(kind, vhost, name, session) {
  const mayOpen = kind === "policies" ? makesPolicies(session) : isAdministrator(session);
  return mayOpen ? link([kind, vhost, name], named(name)) : named(name);
}

/** @type {Column} */
export const VHOST = { label: "Virtual host", sort: "vhost", cell: (item, session) => vhostLink(item.vhost, session) };
/** @type {Column} */
export const USER = { label: "User", sort: "user", cell: (item, session) => userLink(item.user, session) };
