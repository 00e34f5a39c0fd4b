// @ts-check
/** The console: finds the page for an address, and draws it inside the layout. */

import { html, render, useEffect } from "./vendor/preact-htm.js";
import { Layout } from "./component/layout.js";
import { get, session } from "./lib/api.js";
import { followEvents } from "./lib/events.js";
import { matched, route } from "./lib/router.js";
import { useSignal } from "./lib/signal.js";
import { ListPage } from "./page/list.js";
import { LISTS } from "./page/lists.js";
import { PAGES } from "./page/navigation.js";
import { SignIn } from "./page/sign_in.js";

const RETRY_MS = 2000;

/** Who is signed in? Until the broker answers. */
async function findSession() {
  try {
    session.set(await get("/session"));
  } catch {
    if (session.get() === undefined) setTimeout(findSession, RETRY_MS);
  }
}

/** @param {import("./lib/router.js").Route} found */
function pageOf({ steps }) {
  for (const [form, Page] of PAGES) {
    const names = matched(form, steps);
    if (names) return html`<${Page} key=${JSON.stringify([form, steps])} ...${names} />`;
  }
  const list = LISTS.find(({ step }) => matched(step, steps));
  if (list) return html`<${ListPage} key=${list.step} list=${list} />`;
  return html`<h1>Not found</h1><p>There is no such page. <a href="#/">Overview</a></p>`;
}

function App() {
  const user = useSignal(session);
  const found = useSignal(route);
  useEffect(() => {
    findSession();
  }, []);
  useEffect(() => (user ? followEvents() : undefined), [user?.name]);
  if (user === null) return html`<${SignIn} />`;
  return html`<${Layout} session=${user}>${user && pageOf(found)}<//>`;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
