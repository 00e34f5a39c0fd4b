// @ts-check
/** One message: its properties, headers with their types, its story where it died, and its body by content type. */

import { html, useState } from "../vendor/preact-htm.js";
import { hex, number, size, time, value } from "../lib/format.js";
import { bodyOf, story, typeOf } from "../lib/message.js";

const BEGINNING = 80; // characters of a body in its heading
const ITEMS_MAX = 200; // of a JSON array or object that are shown
const OPEN_DEPTH = 2;

/** JSON to be folded. @param {{name?: string, item: any, depth: number}} properties */
function Json({ name, item, depth }) {
  const label = name === undefined ? "" : html`<code>${name}</code>: `;
  if (item === null || typeof item !== "object") return html`<div class="json">${label}<span>${JSON.stringify(item)}</span></div>`;
  const entries = Object.entries(item);
  const brackets = Array.isArray(item) ? `[${number(entries.length)}]` : `{${number(entries.length)}}`;
  return html`<details class="json" open=${depth < OPEN_DEPTH}><summary>${label}<small>${brackets}</small></summary>
    ${entries.slice(0, ITEMS_MAX).map(([key, inside]) => html`<${Json} name=${key} item=${inside} depth=${depth + 1} />`)}
    ${entries.length > ITEMS_MAX && html`<small>and ${number(entries.length - ITEMS_MAX)} more</small>`}
  </details>`;
}

/** @param {{message: any}} properties */
function Body({ message }) {
  const [how, setHow] = useState("");
  const found = bodyOf(message);
  const kind = how || found.kind;
  const choices = [...new Set([found.kind, "text", "hex"])].filter((choice) => choice !== "text" || message.payload_encoding !== "base64");
  const text = found.kind === "text" ? found.value : message.payload;
  return html`${choices.length > 1 && html`<p class="spans" role="group" aria-label="How the body is shown">${choices.map(
      (choice) => html`<button type="button" class="plain" aria-pressed=${choice === kind} onClick=${() => setHow(choice)}>${choice}</button>`,
    )}</p>`}
    ${kind === "json" && html`<div class="body" tabindex="0"><${Json} item=${found.value} depth=${0} /></div>`}
    ${kind === "image" && html`<img class="body-image" src=${found.value} alt="the body of the message" />`}
    ${kind === "text" && html`<pre tabindex="0">${text}</pre>`}
    ${kind === "hex" && html`<pre tabindex="0">${hex(found.bytes)}</pre>`}
    ${message.payload_bytes > found.bytes.length && html`<p><small>The first ${size(found.bytes.length)} of ${size(message.payload_bytes)}.</small></p>`}`;
}

/** @param {any} message */
function beginning({ payload, payload_encoding }) {
  return payload_encoding === "string" ? payload.slice(0, BEGINNING) + (payload.length > BEGINNING ? "…" : "") : "";
}

/** @param {{message: any}} properties */
export function Message({ message }) {
  const [isOpen, setOpen] = useState(false);
  const { headers, timestamp, ...properties } = message.properties;
  const facts = [...Object.entries(properties), ...(timestamp ? [["timestamp", time(timestamp * 1000)]] : [])];
  const shown = Object.entries(headers ?? {}).filter(([name]) => name !== "x-death");
  const deaths = story(headers);
  const notes = [message.exchange || "default exchange", size(message.payload_bytes), message.redelivered && "redelivered", message.state === "unacked" && "unacked", deaths.length > 0 && "dead letter"];
  return html`<details class="message" onToggle=${(/** @type {any} */ event) => event.target === event.currentTarget && setOpen(event.target.open)}>
    <summary><code>${message.routing_key}</code> <small>${notes.filter(Boolean).join(", ")}</small> ${beginning(message)}</summary>
    ${isOpen && html`<div>
      ${deaths.length > 0 && html`<ol class="story">${deaths.map((line) => html`<li>${line}</li>`)}</ol>`}
      ${facts.map(([name, given]) => html`<div class="argument"><code>${name}</code> ${value(given)}</div>`)}
      ${shown.map(([name, given]) => html`<div class="argument">header <code>${name}</code> ${value(given)} <small>${typeOf(given)}</small></div>`)}
      ${message.position && html`<div class="argument"><code>position</code> ${message.position}</div>`}
      <${Body} message=${message} />
    </div>`}
  </details>`;
}
