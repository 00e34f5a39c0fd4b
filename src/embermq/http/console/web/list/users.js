// @ts-check
/** The list of users. */

import { details, named, userLink } from "../component/cell.js";
import { ask, get, path } from "../lib/api.js";
import { isAdministrator } from "../lib/permission.js";

/** Delete a user; taken back, it has its password and its permissions again. @param {any} user */
export async function deleteUser(user) {
  const { name, password_hash, hashing_algorithm, tags, limits } = user;
  const [permissions, topics] = await Promise.all(
    ["permissions", "topic-permissions"].map((kind) => get(path`/users/${name}/` + kind)),
  );
  await ask("DELETE", path`/users/${name}`);
  return async () => {
    await ask("PUT", path`/users/${name}`, { password_hash, hashing_algorithm, tags, limits });
    for (const { vhost, configure, write, read } of permissions) {
      await ask("PUT", path`/permissions/${vhost}/${name}`, { configure, write, read });
    }
    for (const { vhost, exchange, write, read } of topics) {
      await ask("PUT", path`/topic-permissions/${vhost}/${name}`, { exchange, write, read });
    }
  };
}

/** @type {import("../page/list.js").List} */
export const USERS = {
  step: "users",
  title: "Users",
  noun: "user",
  path: "/users",
  may: isAdministrator,
  keyOf: (user) => user.name,
  create: { label: "Add a user", href: "#/add/user", may: isAdministrator },
  columns: [
    { label: "Name", sort: "name", cell: (user, session) => userLink(user.name, session) },
    { label: "Tags", cell: (user) => user.tags.join(", ") },
    { label: "Password", cell: (user) => (user.password_hash ? "set" : "none") },
    { label: "Limits", cell: (user) => details(user.limits) },
  ],
  actions: [
    {
      verb: "Delete",
      may: (session, user) => isAdministrator(session) && user.name !== session.name,
      names: (user) => named(user.name),
      loss: () => "Their permissions are lost, and their connections are closed.",
      act: deleteUser,
    },
  ],
};
