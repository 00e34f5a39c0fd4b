// @ts-check
/** What the signed-in user may do, so that nothing else is offered. The server decides; this is courtesy. */

/** @typedef {{vhost: string, configure: string, write: string, read: string}} Permission */
/** @typedef {{name: string, tags: string[], permissions: Permission[]}} Session */

/** @param {Session} session @param {string} vhost */
export function mayEnter(session, vhost) {
  return session.permissions.some((permission) => permission.vhost === vhost);
}

/**
 * @param {Session} session
 * @param {"configure" | "write" | "read"} right
 * @param {string} vhost
 * @param {string} name
 */
export function may(session, right, vhost, name) {
  const permission = session.permissions.find((known) => known.vhost === vhost);
  if (!permission || permission[right] === "") return false;
  try {
    return new RegExp(permission[right], "u").test(name || "amq.default");
  } catch {
    return true; // a pattern that only the server understands
  }
}

/** Virtual hosts in which something may be declared. @param {Session} session */
export function vhostsToConfigure(session) {
  return session.permissions.filter((permission) => permission.configure !== "").map(({ vhost }) => vhost);
}

/** @param {Session} session @param {...string} tags */
export function hasTag(session, ...tags) {
  return tags.some((tag) => session.tags.includes(tag));
}

export const isAdministrator = (/** @type {Session} */ session) => hasTag(session, "administrator");
export const seesEverything = (/** @type {Session} */ session) => hasTag(session, "administrator", "monitoring");
export const makesPolicies = (/** @type {Session} */ session) => hasTag(session, "administrator", "policymaker");
