// @ts-check
/** One queue: numbers, charts, arguments and their sources, consumers, bindings, messages; publish, purge, delete. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Chart } from "../component/chart.js";
import { Confirm } from "../component/dialog.js";
import { Table } from "../component/table.js";
import { ask, path, Refused, session as current } from "../lib/api.js";
import { argumentSources } from "../lib/argument.js";
import { counted, number, size, value } from "../lib/format.js";
import { may } from "../lib/permission.js";
import { usePolled } from "../lib/poll.js";
import { go, hashOf, route } from "../lib/router.js";
import { lengths, rates, times } from "../lib/sample.js";
import { useSignal } from "../lib/signal.js";
import { CONSUMER_COLUMNS } from "../list/consumers.js";
import { Card, spanOf, Spans } from "./overview.js";
import { Messages } from "./queue_messages.js";
import { Publish } from "./queue_publish.js";

/** @param {any} queue */
function qualities(queue) {
  const found = [queue.type, queue.durable ? "durable" : "transient"];
  if (queue.auto_delete) found.push("auto-delete");
  if (queue.exclusive) found.push("exclusive");
  if (queue.policy) found.push(`policy ${queue.policy}`);
  if (queue.operator_policy) found.push(`operator policy ${queue.operator_policy}`);
  return found.join(", ");
}

/** @param {{queue: any}} properties */
function Numbers({ queue }) {
  const { message_stats: stats } = queue;
  return html`<dl>
    <${Card} label="Ready" value=${number(queue.messages_ready)} small=${size(queue.message_bytes_ready)} />
    <${Card} label="Unacked" value=${number(queue.messages_unacknowledged)} small=${size(queue.message_bytes_unacknowledged)} />
    <${Card} label="Published" value=${number(stats.publish_details.rate)} small="/s" />
    <${Card} label="Delivered" value=${number(stats.deliver_get_details.rate)} small="/s" />
    <${Card} label="Acked" value=${number(stats.ack_details.rate)} small="/s" />
    <${Card} label="Consumers" value=${number(queue.consumers)} />
    ${queue.messages_delayed > 0 && html`<${Card} label="Delayed" value=${number(queue.messages_delayed)} />`}
    ${queue.messages_paged_out > 0 && html`<${Card} label="On disk only" value=${number(queue.messages_paged_out)} />`}
  </dl>`;
}

/** @param {{queue: any}} properties */
function Charts({ queue }) {
  const { message_stats: stats } = queue;
  return html`<${Chart} title="Messages in the queue" unit="messages" times=${times(queue.messages_ready_details)}
      lines=${[
        { label: "ready", values: lengths(queue.messages_ready_details) },
        { label: "unacked", values: lengths(queue.messages_unacknowledged_details) },
      ]} />
    <${Chart} title="Message rates" unit="messages/s" times=${times(stats.publish_details)}
      lines=${[
        { label: "published", values: rates(stats.publish_details) },
        { label: "delivered", values: rates(stats.deliver_get_details) },
        { label: "acked", values: rates(stats.ack_details) },
      ]} />`;
}

/** @param {{queue: any}} properties */
function Arguments({ queue }) {
  const columns = [
    { label: "Argument", cell: (/** @type {any} */ found) => html`<code>${found.name}</code>` },
    { label: "Value", cell: (/** @type {any} */ found) => value(found.value) },
    { label: "From", cell: (/** @type {any} */ found) => found.source },
  ];
  return html`<section aria-labelledby="arguments"><h2 id="arguments">Arguments</h2>
    <${Table} label="Arguments" items=${argumentSources(queue)} columns=${columns} session=${null} keyOf=${(/** @type {any} */ found) => found.name} nothing="None." />
  </section>`;
}

/** @param {{queue: any}} properties */
function Bindings({ queue }) {
  const { data } = usePolled(path`/queues/${queue.vhost}/${queue.name}/bindings`);
  const dead = queue.effective_arguments?.["x-dead-letter-exchange"];
  const key = queue.effective_arguments?.["x-dead-letter-routing-key"];
  const columns = [
    { label: "Exchange", cell: (/** @type {any} */ binding) => binding.source
        ? html`<a href=${hashOf(["exchanges"], { name: binding.source })}><code>${binding.source}</code></a>`
        : html`<em>default exchange</em>` },
    { label: "Routing key", cell: (/** @type {any} */ binding) => html`<code>${binding.routing_key}</code>` },
    { label: "Arguments", cell: (/** @type {any} */ binding) => Object.keys(binding.arguments).length > 0 && value(binding.arguments) },
  ];
  return html`<section aria-labelledby="bindings"><h2 id="bindings">Bindings</h2>
    <${Table} label="Bindings" items=${data ?? []} columns=${columns} session=${null}
      keyOf=${(/** @type {any} */ binding) => JSON.stringify([binding.source, binding.properties_key])} nothing="None." />
    ${dead !== undefined && html`<p>Dead letters go to ${dead === "" ? "the default exchange" : html`the exchange <code>${dead}</code>`}${key !== undefined && html` with the routing key <code>${key}</code>`}.</p>`}
  </section>`;
}

/** @param {{queue: any, asking: string, close: () => void, reload: () => void}} properties */
function Question({ queue, asking, close, reload }) {
  const { vhost, name } = queue;
  if (asking === "purge") {
    const act = async () => {
      await ask("DELETE", path`/queues/${vhost}/${name}/contents`);
      reload();
    };
    return html`<${Confirm} title="Purge this queue?" verb="Purge" act=${act} close=${close}>
      <p>${counted(queue.messages_ready, "ready message")} of <code>${name}</code> (${size(queue.message_bytes_ready)}) will be deleted. This cannot be undone.</p>
    <//>`;
  }
  const act = async () => {
    await ask("DELETE", path`/queues/${vhost}/${name}`);
    go("queues");
  };
  return html`<${Confirm} title="Delete this queue?" verb="Delete" act=${act} close=${close}>
    <p><code>${name}</code> in <code>${vhost}</code> will be deleted with ${counted(queue.messages, "message")} (${size(queue.message_bytes)}) and its bindings;
      ${" "}${counted(queue.consumers, "consumer")} will be cancelled. This cannot be undone.</p>
  <//>`;
}

/** @param {{vhost: string, name: string}} properties */
export function QueuePage({ vhost, name }) {
  const { query } = useSignal(route);
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const { age, step } = spanOf(query, true);
  const { data: queue, error, reload } = usePolled(
    path`/queues/${vhost}/${name}` + `?msg_rates_age=${age}&msg_rates_incr=${step}&lengths_age=${age}&lengths_incr=${step}`,
  );
  const [asking, setAsking] = useState("");
  useEffect(() => {
    document.title = `${name} – EmberMQ`;
  }, [name]);
  const head = html`<p><a href="#/queues">All queues</a></p>`;
  if (error instanceof Refused) {
    const why = error.status === 404 ? "There is no such queue. Perhaps it was deleted a moment ago." : error.message;
    return html`${head}<h1><code>${name}</code></h1><p class="alarm" role="alert">${why}</p>`;
  }
  if (!queue) return html`${head}<h1><code>${name}</code></h1>`;
  const columns = CONSUMER_COLUMNS.filter(({ label, isExtra }) => label !== "Queue" && !isExtra);
  const mayRead = may(session, "read", vhost, name);
  return html`${head}
    <div class="over">
      <h1><code>${name}</code></h1>
      ${mayRead && queue.type !== "stream" && html`<button type="button" class="danger" onClick=${() => setAsking("purge")}>Purge</button>`}
      ${may(session, "configure", vhost, name) && html`<button type="button" class="danger" onClick=${() => setAsking("delete")}>Delete</button>`}
    </div>
    <p>in virtual host <code>${vhost}</code>: ${qualities(queue)}</p>
    <${Numbers} queue=${queue} />
    <${Spans} current=${age} isShort />
    <div class="charts"><${Charts} queue=${queue} /></div>
    <section aria-labelledby="consumers"><h2 id="consumers">Consumers</h2>
      <${Table} label="Consumers" items=${queue.consumer_details} columns=${columns} session=${session}
        keyOf=${(/** @type {any} */ consumer) => JSON.stringify([consumer.channel_details.name, consumer.consumer_tag])} nothing="None." />
    </section>
    <${Bindings} queue=${queue} />
    <${Arguments} queue=${queue} />
    ${mayRead && html`<${Messages} vhost=${vhost} name=${name} isStream=${queue.type === "stream"} />`}
    ${may(session, "write", vhost, "amq.default") && html`<${Publish} vhost=${vhost} name=${name} />`}
    ${asking && html`<${Question} queue=${queue} asking=${asking} close=${() => setAsking("")} reload=${reload} />`}`;
}
