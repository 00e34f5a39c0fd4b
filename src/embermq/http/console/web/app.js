// @ts-check
/** The console: finds the page for an address, and draws it inside the layout. */

import { html, render, useEffect } from "./vendor/preact-htm.js";
import { Layout } from "./component/layout.js";
import { get, session } from "./lib/api.js";
import { route } from "./lib/router.js";
import { useSignal } from "./lib/signal.js";
import { DeclareExchange } from "./page/declare_exchange.js";
import { DeclareQueue } from "./page/declare_queue.js";
import { ListPage } from "./page/list.js";
import { LISTS } from "./page/lists.js";
import { Overview } from "./page/overview.js";
import { QueuePage } from "./page/queue.js";
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
  const [first, ...rest] = steps;
  if (first === undefined) return html`<${Overview} />`;
  if (first === "queues" && rest.length === 2) {
    return html`<${QueuePage} key=${steps.join("/")} vhost=${rest[0]} name=${rest[1]} />`;
  }
  if (first === "declare" && rest[0] === "queue") return html`<${DeclareQueue} />`;
  if (first === "declare" && rest[0] === "exchange") return html`<${DeclareExchange} />`;
  const list = LISTS.find(({ step }) => step === first);
  if (list && rest.length === 0) return html`<${ListPage} key=${first} list=${list} />`;
  return html`<h1>Not found</h1><p>There is no such page. <a href="#/">Overview</a></p>`;
}

function App() {
  const user = useSignal(session);
  const found = useSignal(route);
  useEffect(() => {
    findSession();
  }, []);
  if (user === null) return html`<${SignIn} />`;
  return html`<${Layout} session=${user}>${user && pageOf(found)}<//>`;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
