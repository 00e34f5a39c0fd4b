// @ts-check
/** A page with a list of things: searched, sorted and cut into pages by the server, its state in the address. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Confirm } from "../component/dialog.js";
import { Table } from "../component/table.js";
import { ask, session as current } from "../lib/api.js";
import { counted, number } from "../lib/format.js";
import { pageOfArray } from "../lib/listing.js";
import { usePolled } from "../lib/poll.js";
import { changeQuery, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";

const PAGE_SIZE = 50;
const TYPING_MS = 300;
const NAMED_MAX = 10; // in a question; the others are counted

/** @param {import("./lists.js").List} list @param {Record<string, string>} query */
function addressOf(list, query) {
  if (list.isWhole) return list.path;
  const asked = new URLSearchParams({ page: query.page ?? "1", page_size: String(PAGE_SIZE) });
  for (const name of ["name", "sort", "sort_reverse"]) if (query[name]) asked.set(name, query[name]);
  return `${list.path}?${asked}`;
}

/** @param {{list: import("./lists.js").List, shown: string[]}} properties */
function ChooseColumns({ list, shown }) {
  const labels = list.columns.slice(1).map(({ label }) => label);
  const toggle = (/** @type {string} */ label) =>
    changeQuery({ columns: labels.filter((known) => (known === label) !== shown.includes(known)).join(",") || "none" });
  return html`<details class="menu"><summary>Columns</summary>
    <div>${labels.map((label) => html`<label><input type="checkbox" checked=${shown.includes(label)} onChange=${() => toggle(label)} /> ${label}</label>`)}</div>
  </details>`;
}

/** @param {{list: import("./lists.js").List, query: Record<string, string>}} properties */
function Search({ list, query }) {
  const [text, setText] = useState(query.name ?? "");
  useEffect(() => {
    if (text === (query.name ?? "")) return undefined;
    const timer = setTimeout(() => changeQuery({ name: text, page: undefined }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="search">Search <input type="search" name="search" value=${text}
      placeholder=${list.searches ?? "part of a name"} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>`;
}

/** @param {{page: number, count: number}} properties */
function Pages({ page, count }) {
  if (count <= 1) return null;
  const to = (/** @type {number} */ next) => () => changeQuery({ page: next });
  return html`<nav class="pages" aria-label="Pages of the list">
    <button type="button" disabled=${page <= 1} onClick=${to(page - 1)}>Previous</button>
    <span>Page ${number(page)} of ${number(count)}</span>
    <button type="button" disabled=${page >= count} onClick=${to(page + 1)}>Next</button>
  </nav>`;
}

/** What the selected things lose. @param {{action: import("./lists.js").Action, items: any[]}} properties */
function Loss({ action, items }) {
  return html`<ul>${items.slice(0, NAMED_MAX).map((item) => html`<li>${action.names(item)}</li>`)}</ul>
    ${items.length > NAMED_MAX && html`<p>and ${number(items.length - NAMED_MAX)} more</p>`}
    <p>${action.loss(items)}</p>`;
}

/** @param {{list: import("./lists.js").List}} properties */
export function ListPage({ list }) {
  const { query } = useSignal(route);
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const { data, error, reload } = usePolled(addressOf(list, query));
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [asking, setAsking] = useState(/** @type {import("./lists.js").Action | null} */ (null));
  useEffect(() => {
    document.title = `${list.title} – EmberMQ`;
  }, []);
  useEffect(() => {
    // The last page may have gone while it was looked at.
    if (/** @type {any} */ (error)?.body?.error === "page_out_of_range") changeQuery({ page: undefined });
  }, [error]);
  const shown = query.columns ? query.columns.split(",") : list.columns.slice(1).filter(({ isExtra }) => !isExtra).map(({ label }) => label);
  const columns = list.columns.filter(({ label }, at) => at === 0 || shown.includes(label));
  const found = list.isWhole && data ? pageOfArray(data, query, PAGE_SIZE) : data;
  const items = found?.items ?? [];
  const chosen = items.filter((/** @type {any} */ item) => selected.has(list.keyOf(item)));
  const actions = (list.actions ?? []).filter((action) => items.some((/** @type {any} */ item) => action.may(session, item)));
  const allowed = (/** @type {import("./lists.js").Action} */ action) => chosen.filter((/** @type {any} */ item) => action.may(session, item));
  async function act(/** @type {import("./lists.js").Action} */ action) {
    try {
      for (const item of allowed(action)) await ask("DELETE", action.path(item));
      setSelected(new Set());
    } finally {
      reload();
    }
  }
  return html`<div class="over">
      <h1>${list.title}${found && html` <span class="count">${number(found.filtered_count)}</span>`}</h1>
      ${list.create && list.create.may(session) && html`<a class="button" href=${list.create.href}>${list.create.label}</a>`}
    </div>
    ${list.about && html`<p>${list.about}</p>`}
    <div class="tools">
      <${Search} list=${list} query=${query} />
      <${ChooseColumns} list=${list} shown=${shown} />
      ${actions.map((action) => html`<button type="button" class="danger" disabled=${!allowed(action).length} onClick=${() => setAsking(action)}>${action.label}</button>`)}
    </div>
    ${error && !("body" in error && /** @type {any} */ (error).body?.error === "page_out_of_range") && html`<p class="alarm" role="alert">${error.message}</p>`}
    ${found &&
    html`<${Table} label=${list.title} items=${items} columns=${columns} session=${session} keyOf=${list.keyOf}
        sort=${query.sort ?? ""} isReverse=${query.sort_reverse === "true"}
        onSort=${(/** @type {string} */ sort, /** @type {boolean} */ isReverse) => changeQuery({ sort, sort_reverse: isReverse ? "true" : undefined, page: undefined })}
        selected=${actions.length ? selected : undefined} onSelect=${setSelected}
        maySelect=${(/** @type {any} */ item) => actions.some((action) => action.may(session, item))}
        nothing=${query.name ? "Nothing is found." : "None yet."} />
      <${Pages} page=${found.page} count=${found.page_count} />`}
    ${asking &&
    html`<${Confirm} title=${`${asking.verb} ${counted(allowed(asking).length, list.noun)}?`} verb=${asking.verb} act=${() => act(asking)} close=${() => setAsking(null)}>
      <${Loss} action=${asking} items=${allowed(asking)} />
    <//>`}`;
}
