// @ts-check
/** A page with a list of things: searched, sorted and cut into pages by the server, its state in the address. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Confirm } from "../component/dialog.js";
import { Table } from "../component/table.js";
import { useVhosts } from "../component/vhosts.js";
import { get, session as current } from "../lib/api.js";
import { actOnAll } from "../lib/bulk.js";
import { counted, number, plural } from "../lib/format.js";
import { pageOfArray } from "../lib/listing.js";
import { tell } from "../lib/notice.js";
import { EVERY_MS, usePolled } from "../lib/poll.js";
import { changeQuery, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";

/** @typedef {import("../lib/permission.js").Session} Session */
/**
 * @typedef {{
 *   verb: string, act: (item: any, fields: Record<string, any>) => Promise<unknown>, may: (session: Session, item: any) => boolean,
 *   names: (item: any) => any, loss: (items: any[]) => string, fields?: import("../component/dialog.js").Asked[],
 *   isSafe?: boolean, then?: () => void,
 * }} Action  `act` may answer a function that takes it back; `loss`: what is lost, in words
 * @typedef {{step: string, title: string, may?: (session: Session) => boolean}} Tab
 * @typedef {{
 *   step: string, title: string, noun: string, path: string, columns: import("../component/table.js").Column[],
 *   keyOf: (item: any) => string, inVhost?: (vhost: string) => string, actions?: Action[], may?: (session: Session) => boolean,
 *   isWhole?: boolean, rows?: (all: any[]) => any[], tabs?: Tab[], about?: string, searches?: string, everyMs?: number,
 *   create?: {label: string, href: string, may: (session: Session) => boolean},
 * }} List  `inVhost`: the same of one virtual host; `isWhole`: the API has it in one piece only, as `rows` has it
 */

const PAGE_SIZES = ["50", "100", "200", "500"];
const ALL_PAGE_SIZE = 500;
const TYPING_MS = 300;
const NAMED_MAX = 10; // in a question; the others are counted

/** @param {List} list @param {Record<string, string>} query @param {{page: string, page_size: string}} page */
function addressOf(list, query, page) {
  const address = list.inVhost && query.vhost ? list.inVhost(query.vhost) : list.path;
  if (list.isWhole) return address;
  const asked = new URLSearchParams(page);
  for (const name of ["name", "sort", "sort_reverse"]) if (query[name]) asked.set(name, query[name]);
  return `${address}?${asked}`;
}

/** All that is found, on however many pages. @param {List} list @param {Record<string, string>} query */
async function everything(list, query) {
  if (list.isWhole) {
    const all = await get(addressOf(list, query, { page: "", page_size: "" }));
    return pageOfArray(list.rows ? list.rows(all) : all, { ...query, page: "1" }, Infinity).items;
  }
  const items = [];
  for (let page = 1, count = 1; page <= count; page += 1) {
    const found = await get(addressOf(list, query, { page: String(page), page_size: String(ALL_PAGE_SIZE) }));
    items.push(...found.items);
    count = found.page_count;
  }
  return items;
}

/** @param {{list: List, shown: string[]}} properties */
function ChooseColumns({ list, shown }) {
  const labels = list.columns.slice(1).map(({ label }) => label);
  const toggle = (/** @type {string} */ label) =>
    changeQuery({ columns: labels.filter((known) => (known === label) !== shown.includes(known)).join(",") || "none" });
  return html`<details class="menu"><summary>Columns</summary>
    <div>${labels.map((label) => html`<label><input type="checkbox" checked=${shown.includes(label)} onChange=${() => toggle(label)} /> ${label}</label>`)}</div>
  </details>`;
}

/** @param {{list: List, query: Record<string, string>}} properties */
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

/** @param {{session: Session, query: Record<string, string>}} properties */
function ChooseVhost({ session, query }) {
  const vhosts = useVhosts(session);
  if (vhosts.length < 2 && !query.vhost) return null;
  return html`<label>Virtual host <select name="vhost" value=${query.vhost ?? ""} onChange=${(/** @type {any} */ event) => changeQuery({ vhost: event.target.value, page: undefined })}>
    <option value="">all</option>
    ${vhosts.map((name) => html`<option value=${name} selected=${name === query.vhost}>${name}</option>`)}
  </select></label>`;
}

/** @param {{page: number, count: number, size: string}} properties */
function Pages({ page, count, size }) {
  if (count <= 1 && size === PAGE_SIZES[0]) return null;
  const to = (/** @type {number} */ next) => () => changeQuery({ page: next });
  return html`<nav class="pages" aria-label="Pages of the list">
    <button type="button" disabled=${page <= 1} onClick=${to(page - 1)}>Previous</button>
    <span>Page ${number(page)} of ${number(count)}</span>
    <button type="button" disabled=${page >= count} onClick=${to(page + 1)}>Next</button>
    <label>Rows <select name="rows" value=${size} onChange=${(/** @type {any} */ event) => changeQuery({ rows: event.target.value, page: undefined })}>
      ${PAGE_SIZES.map((choice) => html`<option selected=${choice === size}>${choice}</option>`)}
    </select></label>
  </nav>`;
}

/** @param {{tabs: Tab[], current: string, session: Session}} properties */
export function Tabs({ tabs, current: step, session }) {
  return html`<nav class="tabs" aria-label="Kinds">
    ${tabs.filter(({ may }) => !may || may(session)).map((tab) => html`<a href=${"#/" + tab.step} aria-current=${tab.step === step ? "page" : undefined}>${tab.title}</a>`)}
  </nav>`;
}

/** What is asked before an action, how far it is, and what it could not do.
 * @param {{action: Action, items: any[], noun: string, close: () => void, ended: () => void}} properties */
export function ActionDialog({ action, items: all, noun, close, ended }) {
  const [items, setItems] = useState(all); // after a refusal, those that were refused
  const [done, setDone] = useState(0);
  async function act(/** @type {Record<string, any>} */ fields) {
    const result = await actOnAll(items, (item) => action.act(item, fields), setDone);
    ended();
    if (result.failures.length) {
      setDone(0);
      setItems(result.failures.map(({ item }) => item));
      const reasons = [...new Set(result.failures.map(({ reason }) => reason))].slice(0, NAMED_MAX);
      throw new Error(items.length === 1 ? reasons[0] : `${counted(result.failures.length, noun)} of ${number(items.length)} refused: ${reasons.join("; ")}`);
    }
    tell(`${action.verb}: ${counted(items.length, noun)}.`, result.undo);
    action.then?.();
  }
  return html`<${Confirm} title=${`${action.verb}: ${counted(items.length, noun)}?`} verb=${action.verb} act=${act} close=${close} fields=${action.fields} isSafe=${action.isSafe}>
    <ul>${items.slice(0, NAMED_MAX).map((item) => html`<li>${action.names(item)}</li>`)}</ul>
    ${items.length > NAMED_MAX && html`<p>and ${number(items.length - NAMED_MAX)} more</p>`}
    <p>${action.loss(items)}</p>
    ${done > 0 && items.length > 1 && html`<p><progress aria-label="Done" max=${items.length} value=${done}></progress> ${number(done)} of ${number(items.length)}</p>`}
  <//>`;
}

/** @param {{list: List}} properties */
export function ListPage({ list }) {
  const { query } = useSignal(route);
  const session = /** @type {Session} */ (useSignal(current));
  const pageSize = PAGE_SIZES.includes(query.rows) ? query.rows : PAGE_SIZES[0];
  const { data, error, reload } = usePolled(addressOf(list, query, { page: query.page ?? "1", page_size: pageSize }), list.everyMs ?? EVERY_MS);
  const [selected, setSelected] = useState(/** @type {Map<string, any>} */ (new Map()));
  const [asking, setAsking] = useState(/** @type {Action | null} */ (null));
  const isOutOfRange = /** @type {any} */ (error)?.body?.error === "page_out_of_range";
  useEffect(() => {
    document.title = `${list.title} – EmberMQ`;
  }, []);
  useEffect(() => {
    if (isOutOfRange) changeQuery({ page: undefined }); // the last page has gone while it was looked at
  }, [error]);
  const shown = query.columns ? query.columns.split(",") : list.columns.slice(1).filter(({ isExtra }) => !isExtra).map(({ label }) => label);
  const columns = list.columns.filter(({ label }, at) => at === 0 || shown.includes(label));
  const found = list.isWhole && data ? pageOfArray(list.rows ? list.rows(data) : data, query, Number(pageSize)) : data;
  const items = /** @type {any[]} */ (found?.items ?? []);
  // What is selected is as it was seen last.
  const chosen = new Map(selected);
  for (const item of items) if (chosen.has(list.keyOf(item))) chosen.set(list.keyOf(item), item);
  const actions = (list.actions ?? []).filter((action) => items.some((item) => action.may(session, item)));
  const maySelect = (/** @type {any} */ item) => actions.some((action) => action.may(session, item));
  const allowed = (/** @type {Action} */ action) => [...chosen.values()].filter((item) => action.may(session, item));
  const select = (/** @type {Set<string>} */ keys) => {
    const known = new Map([...chosen, ...items.map((item) => /** @type {[string, any]} */ ([list.keyOf(item), item]))]);
    setSelected(new Map([...keys].map((key) => [key, known.get(key)])));
  };
  const selectAll = async () => {
    const all = (await everything(list, query)).filter(maySelect);
    setSelected(new Map(all.map((item) => [list.keyOf(item), item])));
  };
  const ended = () => {
    setSelected(new Map());
    reload();
  };
  return html`<div class="over">
      <h1>${list.title}${found && html` <span class="count">${number(found.filtered_count)}</span>`}</h1>
      ${list.create && list.create.may(session) && html`<a class="button" href=${list.create.href}>${list.create.label}</a>`}
    </div>
    ${list.tabs && html`<${Tabs} tabs=${list.tabs} current=${list.step} session=${session} />`}
    ${list.about && html`<p class="about">${list.about}</p>`}
    <div class="tools">
      <${Search} list=${list} query=${query} />
      ${list.inVhost && html`<${ChooseVhost} session=${session} query=${query} />`}
      <${ChooseColumns} list=${list} shown=${shown} />
    </div>
    ${actions.length > 0 && html`<div class="tools actions" role="group" aria-label="With the selected">
      <span>${chosen.size ? `${counted(chosen.size, list.noun)} selected` : `Select ${plural(list.noun)} to change them.`}</span>
      ${chosen.size > 0 && found.filtered_count > chosen.size && html`<button type="button" class="plain" onClick=${selectAll}>Select all ${number(found.filtered_count)}</button>`}
      ${chosen.size > 0 && html`<button type="button" class="plain" onClick=${() => setSelected(new Map())}>Select none</button>`}
      ${actions.map((action) => html`<button type="button" class=${action.isSafe ? "" : "danger"} disabled=${!allowed(action).length} onClick=${() => setAsking(action)}>${action.verb}</button>`)}
    </div>`}
    ${error && !isOutOfRange && html`<p class="alarm" role="alert">${error.message}</p>`}
    ${found &&
    html`<${Table} label=${list.title} items=${items} columns=${columns} session=${session} keyOf=${list.keyOf}
        sort=${query.sort ?? ""} isReverse=${query.sort_reverse === "true"}
        onSort=${(/** @type {string} */ sort, /** @type {boolean} */ isReverse) => changeQuery({ sort, sort_reverse: isReverse ? "true" : undefined, page: undefined })}
        selected=${actions.length ? new Set(chosen.keys()) : undefined} onSelect=${select} maySelect=${maySelect}
        nothing=${query.name ? "Nothing is found." : "None yet."} />
      <${Pages} page=${found.page} count=${found.page_count} size=${pageSize} />`}
    ${asking && html`<${ActionDialog} action=${asking} items=${allowed(asking)} noun=${list.noun} close=${() => setAsking(null)} ended=${ended} />`}`;
}
