// @ts-check
/** Definitions out and in, with a preview of what would change; the log; versions and features. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { Table } from "../component/table.js";
import { Facts, Section } from "../component/thing.js";
import { ask, session as current } from "../lib/api.js";
import { counted, number, time, value } from "../lib/format.js";
import { tell } from "../lib/notice.js";
import { usePolled } from "../lib/poll.js";
import { changeQuery, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { TRACES } from "../list/traces.js";
import { Tabs } from "./list.js";

const WORDS = { added: "will be added", changed: "will change", kept: "stays as it is, though the file says otherwise", refused: "is refused: there is no such virtual host" };
const SHOWN_MAX = 500;
const LEVELS = ["debug", "info", "warning", "error"];

/** @param {Record<string, [unknown, unknown]>} differences */
const differing = (differences) =>
  Object.entries(differences).map(([name, [now, then]]) => html`<div class="argument"><code>${name}</code> ${value(now)} → ${value(then)}</div>`);

/** @param {{preview: any}} properties */
function Preview({ preview }) {
  const columns = [
    { label: "Name", cell: (/** @type {any} */ item) => html`<code>${item.name}</code>` },
    { label: "Kind", cell: (/** @type {any} */ item) => item.kind.replaceAll("_", " ") },
    { label: "Virtual host", cell: (/** @type {any} */ item) => item.vhost },
    { label: "What happens", cell: (/** @type {any} */ item) => WORDS[/** @type {keyof typeof WORDS} */ (item.change)] },
    { label: "Differences", cell: (/** @type {any} */ item) => differing(item.differences) },
  ];
  return html`<div role="status">
    <p>${Object.entries(preview.counts).map(([change, count]) => `${number(/** @type {number} */ (count))} ${change}`).join(", ") || "The file is empty."}</p>
    <${Table} label="What would change" items=${preview.changes.slice(0, SHOWN_MAX)} columns=${columns} session=${null} keyOf=${(/** @type {any} */ item) => JSON.stringify([item.kind, item.vhost, item.name])} nothing="Nothing would change." />
    ${preview.changes.length > SHOWN_MAX && html`<p>and ${number(preview.changes.length - SHOWN_MAX)} more</p>`}
  </div>`;
}

export function Definitions() {
  const [fields, change] = useFields({ document: "" });
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  useEffect(() => {
    document.title = "Definitions – EmberMQ";
  }, []);
  const parsed = () => {
    try {
      return JSON.parse(fields.document);
    } catch {
      throw new Error("document: this is no JSON");
    }
  };
  const read = async (/** @type {any} */ event) => {
    change("document")(await event.target.files[0].text());
    setPreview(null);
  };
  async function submit() {
    if (!preview) {
      setPreview(await ask("POST", "/definitions?dry_run=true", parsed()));
      return;
    }
    await ask("POST", "/definitions", parsed());
    tell(`Imported: ${counted(preview.changes.length, "change")}.`);
    setPreview(null);
    change("document")("");
  }
  return html`<h1>Definitions</h1>
    <p class="about">Everything but the messages: virtual hosts, users, permissions, queues, exchanges, bindings, policies, limits.</p>
    <${Section} id="export" title="Export">
      <p class="buttons"><a class="button" href="/api/definitions" download="definitions.json">Download</a> <a class="button" href="/api/definitions?for=rabbitmq" download="definitions-for-rabbitmq.json">Download for RabbitMQ</a></p>
    <//>
    <${Section} id="import" title="Import">
      <p><label>A file <input type="file" name="file" accept=".json,application/json" onChange=${read} /></label></p>
      <${Form} label="Import definitions" verb=${preview ? "Import" : "Preview"} submit=${submit} isDanger=${Boolean(preview)}>
        <${Field} label="Definitions" name="document" rows=${8} isRequired value=${fields.document} onInput=${(/** @type {string} */ text) => { change("document")(text); setPreview(null); }} hint="as JSON; first shows what would change" />
        ${preview && html`<${Preview} preview=${preview} />`}
      <//>
    <//>`;
}

export function LogPage() {
  const session = /** @type {any} */ (useSignal(current));
  const { query } = useSignal(route);
  const level = LEVELS.includes(query.level) ? query.level : "info";
  const { data, error } = usePolled(`/log?level=${level}&count=500`, 2000);
  useEffect(() => {
    document.title = "Log – EmberMQ";
  }, []);
  const columns = [
    { label: "Message", cell: (/** @type {any} */ line) => line.message },
    { label: "Level", cell: (/** @type {any} */ line) => line.level },
    { label: "Time", cell: (/** @type {any} */ line) => time(line.time_ms) },
    { label: "Logger", cell: (/** @type {any} */ line) => html`<code>${line.logger}</code>` },
  ];
  return html`<h1>Log of the broker</h1>
    <${Tabs} tabs=${TRACES.tabs} current="log" session=${session} />
    <div class="tools"><label>Level <select name="level" value=${level} onChange=${(/** @type {any} */ event) => changeQuery({ level: event.target.value })}>
      ${LEVELS.map((known) => html`<option value=${known} selected=${known === level}>${known}</option>`)}</select></label></div>
    ${error && html`<p class="alarm" role="alert">${error.message}</p>`}
    ${data && html`<${Table} label="Log" items=${data.lines.toReversed()} columns=${columns} session=${null} keyOf=${(/** @type {any} */ line) => String(line.number)} nothing="Nothing of this level." />`}`;
}

export function About() {
  const { data: overview } = usePolled("/overview", 60_000);
  const { data: flags } = usePolled("/feature-flags", 60_000);
  useEffect(() => {
    document.title = "Version and features – EmberMQ";
  }, []);
  const columns = [
    { label: "Feature", cell: (/** @type {any} */ flag) => html`<code>${flag.name}</code>` },
    { label: "What it is", cell: (/** @type {any} */ flag) => flag.desc },
    { label: "State", cell: (/** @type {any} */ flag) => flag.state },
  ];
  return html`<h1>Version and features</h1>
    ${overview && html`<${Facts} facts=${[
      ["EmberMQ", overview.product_version],
      ["Build", overview.product_build],
      ["Like RabbitMQ's API", overview.rabbitmq_version],
      ["Node", overview.node],
      ["Cluster", overview.cluster_name],
    ]} />
    <p><a href="/api/">The HTTP API</a></p>
    <${Section} id="exchange-types" title="Exchange types">
      ${(overview.exchange_types ?? []).map((/** @type {any} */ { name, description }) => html`<div class="argument"><code>${name}</code> ${description}</div>`)}
    <//>`}
    <${Section} id="features" title="Features">
      <${Table} label="Features" items=${flags ?? []} columns=${columns} session=${null} keyOf=${(/** @type {any} */ flag) => flag.name} nothing="None." />
    <//>`;
}
