// @ts-check
/** What stands around every page: navigation, the user, what was done last, and the banner when the broker is lost. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { ask, lost, session as current } from "../lib/api.js";
import { route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { NAVIGATION } from "../page/navigation.js";
import { NoticeLine } from "./notice.js";

async function signOut() {
  await ask("DELETE", "/session");
  current.set(null);
}

export function Brand() {
  return html`<img src="/console/flame.svg" width="22" height="22" alt="" /><span><b>Ember</b>MQ</span>`;
}

/** @param {import("../page/navigation.js").Link} link @param {string} step */
const isOf = (link, step) => link.step === step || Boolean(link.tabs?.some((tab) => tab.step === step));

/** @param {{session: import("../lib/permission.js").Session}} properties */
function Navigation({ session }) {
  const step = useSignal(route).steps[0] ?? "";
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [step]);
  const groups = NAVIGATION.map(({ title, links }) => ({ title, links: links.filter(({ may }) => !may || may(session)) }));
  return html`<button type="button" class="menu-button" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpen(!isOpen)}>Menu</button>
    <nav aria-label="Pages" id="pages" class=${isOpen ? "open" : ""}>
      ${groups
        .filter(({ links }) => links.length)
        .map(
          ({ title, links }) => html`<p class="group" id=${`group-${title}`}>${title}</p>
            <ul aria-labelledby=${`group-${title}`}>
              ${links.map(
                (link) =>
                  html`<li><a href=${"#/" + link.step} aria-current=${isOf(link, step) ? "page" : undefined}>${link.title}</a></li>`,
              )}
            </ul>`,
        )}
    </nav>`;
}

/** @param {{session: import("../lib/permission.js").Session | undefined, children?: any}} properties */
export function Layout({ session, children }) {
  const isLost = useSignal(lost);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <a class="brand" href="#/"><${Brand} /></a>
      ${session &&
      html`<p class="user">
        <span title=${session.tags.join(", ")}>${session.name}</span>
        <button type="button" class="plain" onClick=${signOut}>Sign out</button>
      </p>`}
    </header>
    <div class="beside">
      ${session && html`<div class="pages-beside"><${Navigation} session=${session} /></div>`}
      <main id="main" tabindex="-1">
        ${isLost && html`<${LostBanner} />`} <${NoticeLine} /> ${children}
      </main>
    </div>
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
