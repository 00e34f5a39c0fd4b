// @ts-check
/** The virtual hosts that the user may see, to choose one of. */

import { useEffect, useState } from "../vendor/preact-htm.js";
import { get } from "../lib/api.js";
import { seesEverything } from "../lib/permission.js";

/** @param {import("../lib/permission.js").Session} session @returns {string[]} */
export function useVhosts(session) {
  const [names, setNames] = useState(session.permissions.map(({ vhost }) => vhost));
  useEffect(() => {
    if (!seesEverything(session)) return;
    get("/vhosts?columns=name").then((vhosts) => setNames(vhosts.map((/** @type {any} */ { name }) => name)), () => {});
  }, []);
  return names;
}
