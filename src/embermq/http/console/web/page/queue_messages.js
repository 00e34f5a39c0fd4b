// @ts-check
/** The messages of a queue, looked at and searched without being touched. */

import { html, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { get, path } from "../lib/api.js";
import { body, number, size, time, value } from "../lib/format.js";

const COUNT = 10;
const BODY_BYTES = 4096;
const BEGINNING = 80; // characters of a body in its heading

/** @param {any} message */
function beginning({ payload, payload_encoding }) {
  return payload_encoding === "string" ? payload.slice(0, BEGINNING) + (payload.length > BEGINNING ? "…" : "") : "";
}

/** @param {{message: any}} properties */
function Message({ message }) {
  const { headers, timestamp, ...properties } = message.properties;
  const facts = [...Object.entries(properties), ...(timestamp ? [["timestamp", time(timestamp * 1000)]] : [])];
  return html`<details class="message">
    <summary><code>${message.routing_key}</code> <small>${message.exchange || "default exchange"}, ${size(message.payload_bytes)}${message.redelivered && ", redelivered"}${message.state === "unacked" && ", unacked"}</small> ${beginning(message)}</summary>
    <div>
      ${facts.map(([name, given]) => html`<div class="argument"><code>${name}</code> ${value(given)}</div>`)}
      ${Object.entries(headers ?? {}).map(([name, given]) => html`<div class="argument">header <code>${name}</code> ${value(given)}</div>`)}
      <pre tabindex="0">${body(message.payload, message.payload_encoding)}</pre>
      ${message.payload_bytes > BODY_BYTES && html`<p><small>The first ${size(BODY_BYTES)} of ${size(message.payload_bytes)}.</small></p>`}
    </div>
  </details>`;
}

/** @param {{vhost: string, name: string}} properties */
export function Messages({ vhost, name }) {
  const [fields, change] = useFields({ routing_key: "", header: "", body: "" });
  const [found, setFound] = useState(/** @type {any} */ (null));
  async function look(/** @type {string | undefined} */ from) {
    const asked = new URLSearchParams({ count: String(COUNT), truncate: String(BODY_BYTES) });
    for (const [key, text] of Object.entries(fields)) if (text) asked.set(key, text);
    if (from) asked.set("from", from);
    const answer = await get(path`/queues/${vhost}/${name}/messages` + `?${asked}`);
    setFound(from ? { ...answer, messages: [...found.messages, ...answer.messages] } : answer);
  }
  return html`<section aria-labelledby="messages"><h2 id="messages">Messages</h2>
    <p>Looking changes nothing: messages stay where they are, in their order.</p>
    <${Form} label="Look at messages" verb="Look" submit=${() => look(undefined)}>
      <div class="fields">
        <${Field} label="Routing key" name="routing_key" value=${fields.routing_key} onInput=${change("routing_key")} hint="a topic pattern: orders.*.new" />
        <${Field} label="Header" name="header" value=${fields.header} onInput=${change("header")} hint="name or name=value" />
        <${Field} label="Body" name="body" value=${fields.body} onInput=${change("body")} hint="text in it" />
      </div>
    <//>
    ${found && html`<div aria-live="polite">
      ${found.messages.length === 0 && html`<p class="nothing">No messages${fields.routing_key || fields.header || fields.body ? " fit" : ""}.</p>`}
      ${found.messages.map((/** @type {any} */ message) => html`<${Message} key=${message.position ?? message.delivery_tag} message=${message} />`)}
      ${found.next && html`<p class="buttons"><button type="button" onClick=${() => look(found.next)}>More</button> <small>${number(found.messages.length)} shown</small></p>`}
    </div>`}
  </section>`;
}
