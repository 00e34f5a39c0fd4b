// @ts-check
/** What stands around every page: navigation, the user, and the banner when the broker does not answer. */

import { html } from "../vendor/preact-htm.js";
import { ask, lost, session as current } from "../lib/api.js";
import { route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { LISTS } from "../page/lists.js";

async function signOut() {
  await ask("DELETE", "/session");
  current.set(null);
}

export function Brand() {
  return html`<img src="/console/flame.svg" width="22" height="22" alt="" /><span><b>Ember</b>MQ</span>`;
}

/** @param {{session: import("../lib/permission.js").Session | undefined, children?: any}} properties */
export function Layout({ session, children }) {
  const step = useSignal(route).steps[0] ?? "";
  const isLost = useSignal(lost);
  const links = [{ step: "", title: "Overview" }, ...LISTS.filter((list) => session && (!list.may || list.may(session)))];
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <a class="brand" href="#/"><${Brand} /></a>
      ${session &&
      html`<nav aria-label="Pages">
        ${links.map(
          (link) =>
            html`<a href=${"#/" + link.step} aria-current=${link.step === step ? "page" : undefined}>${link.title}</a>`,
        )}
      </nav>
      <p class="user">
        <span title=${session.tags.join(", ")}>${session.name}</span>
        <button type="button" class="plain" onClick=${signOut}>Sign out</button>
      </p>`}
    </header>
    <main id="main" tabindex="-1">
      ${isLost && html`<${LostBanner} />`} ${children}
    </main>
  `;
}

export function LostBanner() {
  return html`<p class="alarm" role="alert">
    <strong>The broker does not answer.</strong> What you see is what it said last. This page keeps asking, and goes on
    by itself.
  </p>`;
}

/** The address is the router's, so the link cannot go there by itself. @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
