// @ts-check
/** The messages of a queue or stream: looked at and searched where they are; copied, moved, deleted or returned. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Confirm } from "../component/dialog.js";
import { Field, Form, useFields } from "../component/form.js";
import { Message } from "../component/message.js";
import { ask, get, path } from "../lib/api.js";
import { download } from "../lib/download.js";
import { counted, number } from "../lib/format.js";

const COUNT = 10;
const BODY_BYTES = 64 * 1024;
const DOWNLOAD_MAX = 10_000; // messages
const POLL_MS = 500;
const FILTERS = ["routing_key", "header", "body", "selector"];
const VERBS = { copy: "Copy", move: "Move", return: "Return dead letters", delete: "Delete" };

/** @typedef {{vhost: string, name: string, isStream?: boolean}} Where */

/** A filter as the tasks take it. @param {Record<string, any>} fields */
export function filterOf({ routing_key, header, body, selector }) {
  const [name, ...rest] = header.split("=");
  return {
    ...(routing_key ? { routing_key } : {}),
    ...(header ? { headers: { [name]: rest.length ? rest.join("=") : null } } : {}),
    ...(body ? { body } : {}),
    ...(selector ? { selector } : {}),
  };
}

/** The place in a stream for an offset (first, last, 17) or a time. @param {Where} where @param {string} start */
async function placeInStream({ vhost, name }, start) {
  const isTime = /^\d{4}-\d\d-\d\d/.test(start);
  const asked = isTime ? `timestamp=${new Date(start.replace(" ", "T")).getTime()}` : `offset=${encodeURIComponent(start)}`;
  const { offset } = await get(path`/streams/${vhost}/${name}/offset` + `?${asked}`);
  return `low-${offset}`;
}

/** @param {Where} where @param {Record<string, any>} fields @param {string | undefined} from @param {number} count */
async function page(where, fields, from, count) {
  const asked = new URLSearchParams({ count: String(count), truncate: String(BODY_BYTES), state: fields.state });
  for (const key of FILTERS) if (fields[key]) asked.set(key, fields[key]);
  const start = from ?? (fields.from && where.isStream ? await placeInStream(where, fields.from) : fields.from);
  if (start) asked.set("from", start);
  return get(path`/queues/${where.vhost}/${where.name}/messages` + `?${asked}`);
}

/** All that fit, as JSON lines. @param {Where} where @param {Record<string, any>} fields @param {(count: number) => void} progress */
async function keep(where, fields, progress) {
  const lines = [];
  let next;
  do {
    const found = /** @type {any} */ (await page(where, fields, next, 200));
    for (const message of found.messages) lines.push(JSON.stringify(message));
    next = found.next;
    progress(lines.length);
  } while (next && lines.length < DOWNLOAD_MAX);
  download(`${where.name.replace(/[^\w.-]+/g, "_")}.jsonl`, "application/x-ndjson", lines.join("\n") + "\n");
}

/** How far a task is, until it has ended. @param {{id: string}} properties */
function Progress({ id }) {
  const [task, setTask] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let timer = 0;
    const look = async () => {
      const found = await get(path`/tasks/${id}`).catch(() => null);
      setTask(found);
      if (found?.state === "running") timer = setTimeout(look, POLL_MS);
    };
    look();
    return () => clearTimeout(timer);
  }, [id]);
  if (!task) return null;
  return html`<p role="status">${task.kind} ${task.state}: ${counted(task.done, "message")} of ${number(task.scanned)} looked at${task.reason && `, ${task.reason}`}
    <progress max=${Math.max(task.total, 1)} value=${task.state === "running" ? task.scanned : Math.max(task.total, 1)} aria-label="looked at"></progress>
    ${task.state === "running" && html`<button type="button" onClick=${() => ask("DELETE", path`/tasks/${id}`)}>Cancel</button>`}</p>`;
}

/** @param {{where: Where, fields: Record<string, any>}} properties */
function Transfer({ where, fields }) {
  const [form, change] = useFields({ kind: "copy", destination: "", limit: "" });
  const [asking, setAsking] = useState(/** @type {any} */ (null));
  const [task, setTask] = useState("");
  const kinds = where.isStream ? ["copy"] : Object.keys(VERBS);
  const needsTarget = form.kind === "copy" || form.kind === "move";
  /** Which ones? Looked at first, nothing is done. */
  async function dryRun() {
    if (needsTarget && !form.destination) throw new Error("destination is needed");
    const found = await page(where, { ...fields, state: "ready" }, undefined, 500);
    const limit = Number(form.limit) || Infinity;
    setAsking({ count: Math.min(found.messages.length, limit), isMore: Boolean(found.next) && found.messages.length < limit });
  }
  async function act() {
    const told = { filter: filterOf(fields), ...(form.limit ? { limit: Number(form.limit) } : {}), ...(needsTarget ? { destination: form.destination } : {}) };
    const started = await ask("POST", path`/queues/${where.vhost}/${where.name}/messages/` + form.kind, told);
    setTask(started.id);
  }
  return html`<details class="transfer"><summary>Copy, move, delete, return dead letters</summary>
    <${Form} label="Copy, move, delete or return" verb="Continue" submit=${dryRun}>
      <div class="fields">
        <${Field} label="What to do" name="kind" choices=${kinds} value=${form.kind} onInput=${change("kind")} hint="with the messages that fit the search above" />
        ${needsTarget && html`<${Field} label="Destination" name="destination" value=${form.destination} onInput=${change("destination")} hint="a queue" />`}
        <${Field} label="At most" name="limit" type="number" unit="messages" value=${form.limit} onInput=${change("limit")} hint="all where empty" />
      </div>
    <//>
    ${asking && html`<${Confirm} title=${`${VERBS[/** @type {"copy"} */ (form.kind)]}?`} verb=${VERBS[/** @type {"copy"} */ (form.kind)]} act=${act} close=${() => setAsking(null)}>
      <p>${asking.isMore ? "More than " : ""}${counted(asking.count, "message")} of <code>${where.name}</code> fit${needsTarget && html`; they go to <code>${form.destination}</code>`}.
        ${form.kind === "delete" && " What is deleted cannot be brought back."}</p>
    <//>`}
    ${task && html`<${Progress} key=${task} id=${task} />`}
  </details>`;
}

/** @param {Where} properties */
export function Messages({ vhost, name, isStream }) {
  const where = { vhost, name, isStream };
  const [fields, change] = useFields({ routing_key: "", header: "", body: "", selector: "", from: "", state: "ready" });
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [kept, setKept] = useState("");
  async function look(/** @type {string | undefined} */ from) {
    const answer = await page(where, fields, from, COUNT);
    setFound(from ? { ...answer, messages: [...found.messages, ...answer.messages] } : answer);
  }
  const isFiltered = FILTERS.some((key) => fields[key]);
  return html`<section aria-labelledby="messages"><h2 id="messages">Messages</h2>
    <p>Looking changes nothing: messages stay where they are, in their order.</p>
    <${Form} label="Look at messages" verb="Look" submit=${() => look(undefined)}>
      <div class="fields">
        <${Field} label="Routing key" name="routing_key" value=${fields.routing_key} onInput=${change("routing_key")} hint="a topic pattern: orders.*.new" />
        <${Field} label="Header" name="header" value=${fields.header} onInput=${change("header")} hint="name or name=value" />
        <${Field} label="Body" name="body" value=${fields.body} onInput=${change("body")} hint="text in it" />
        <${Field} label="Selector" name="selector" value=${fields.selector} onInput=${change("selector")} hint="price > 5 AND country IN ('PE', 'CL')" />
        <${Field} label="From" name="from" value=${fields.from} onInput=${change("from")} hint=${isStream ? "an offset, first, last, 1h, or a time: 2026-11-18 14:00" : "the position of a message"} />
        ${!isStream && html`<${Field} label="State" name="state" choices=${["ready", "unacked"]} value=${fields.state} onInput=${change("state")} />`}
      </div>
    <//>
    ${found && html`<div aria-live="polite">
      ${found.messages.length === 0 && html`<p class="nothing">No messages${isFiltered ? " fit" : ""}${found.next ? `, ${number(found.scanned)} looked at` : ""}.</p>`}
      ${found.messages.map((/** @type {any} */ message) => html`<${Message} key=${message.position ?? `${message.channel} ${message.delivery_tag}`} message=${message} />`)}
      <p class="buttons">
        ${found.next && html`<button type="button" onClick=${() => look(found.next)}>More</button>`}
        ${found.messages.length > 0 && html`<button type="button" onClick=${() => keep(where, fields, (count) => setKept(counted(count, "message"))).catch((error) => setKept(error.message))}>Download as JSON lines</button>
          <small>${kept || `${number(found.messages.length)} shown`}</small>`}
      </p>
    </div>`}
    <${Transfer} where=${where} fields=${fields} />
  </section>`;
}
