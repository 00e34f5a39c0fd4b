// @ts-check
/** The broker as a whole: numbers, alarms with what to do, and charts of the past. */

import { html, useEffect } from "../vendor/preact-htm.js";
import { Chart } from "../component/chart.js";
import { session as current } from "../lib/api.js";
import { node as nodeEvents, overview as events } from "../lib/events.js";
import { duration, number, size } from "../lib/format.js";
import { seesEverything } from "../lib/permission.js";
import { usePolled } from "../lib/poll.js";
import { continued } from "../lib/recent.js";
import { changeQuery, route } from "../lib/router.js";
import { lengths, rates, SPANS, times } from "../lib/sample.js";
import { useSignal } from "../lib/signal.js";

const LINES = [
  ["publish", "published"],
  ["deliver_get", "delivered"],
  ["ack", "acked"],
  ["confirm", "confirmed"],
];
const WHAT_TO_DO = [
  ["memory", "Publishers wait until there is memory again. Consume or purge long queues, limit their length, or raise the memory limit."],
  ["disk", "Publishers wait until there is room again. Free some disk, purge long queues, shorten the retention of streams, or lower the limit."],
];

/** @param {{label: string, value: any, small?: any}} properties */
export function Card({ label, value, small }) {
  return html`<div><dt>${label}</dt><dd>${value}${small && html` <small>${small}</small>`}</dd></div>`;
}

/** @param {{current: number, isShort?: boolean}} properties */
export function Spans({ current, isShort }) {
  return html`<p class="spans" role="group" aria-label="Span of the charts">
    ${SPANS.slice(0, isShort ? 2 : undefined).map(
      ({ age, label }) =>
        html`<button type="button" class="plain" aria-pressed=${age === current} onClick=${() => changeQuery({ span: age })}>${label}</button>`,
    )}
  </p>`;
}

/** The span that an address asks for. @param {Record<string, string>} query @param {boolean} [isShort] */
export function spanOf(query, isShort) {
  return SPANS.slice(0, isShort ? 2 : undefined).find(({ age }) => String(age) === query.span) ?? SPANS[1];
}

/** @param {{raised: {resource: string, reason: string}[]}} properties */
function Alarms({ raised }) {
  return raised.map(
    (alarm) => html`<p class="alarm" role="alert">
      <strong>Alarm: ${alarm.resource}.</strong> ${alarm.reason} ${" "}${WHAT_TO_DO.find(([word]) => alarm.resource.includes(word))?.[1]}
    </p>`,
  );
}

function Node() {
  const node = useSignal(nodeEvents);
  if (!node) return null;
  return html`<h2>Node <code>${node.name}</code></h2>
    <dl>
      <${Card} label="Memory" value=${size(node.mem_used)} small=${node.mem_limit && `alarm at ${size(node.mem_limit)}`} />
      ${node.disk_free !== undefined &&
      html`<${Card} label="Free disk" value=${size(node.disk_free)} small=${node.disk_free_limit && `alarm at ${size(node.disk_free_limit)}`} />
        <${Card} label="Sync latency" value=${number(node.io_sync_avg_time)} small="ms on average" />`}
      <${Card} label="File descriptors" value=${number(node.fd_used)} small=${`of ${number(node.fd_total)}`} />
      <${Card} label="Up for" value=${duration(node.uptime / 1000)} />
    </dl>`;
}

export function Overview() {
  const { query } = useSignal(route);
  const session = useSignal(current);
  const { age, step } = spanOf(query);
  const { data } = usePolled(`/overview?msg_rates_age=${age}&msg_rates_incr=${step}&lengths_age=${age}&lengths_incr=${step}`);
  const live = useSignal(events);
  useEffect(() => {
    document.title = "Overview – EmberMQ";
  }, []);
  if (!data) return html`<h1>Overview</h1>`;
  const { queue_totals: queued, message_stats: stats, object_totals: objects } = live ?? data;
  const { queue_totals: past, message_stats: pastStats } = data;
  const isShort = step === SPANS[0].step; // longer ones move by the minute
  const go = (/** @type {number[]} */ at, /** @type {any[][]} */ lines, /** @type {(told: any) => number[]} */ values) =>
    isShort ? continued(at, lines, values, age) : { times: at, lines };
  const rateChart = go(times(pastStats.publish_details), LINES.map(([name]) => rates(pastStats[`${name}_details`])),
    (told) => LINES.map(([name]) => told.message_stats[`${name}_details`].rate));
  const lengthChart = go(times(past.messages_ready_details), [lengths(past.messages_ready_details), lengths(past.messages_unacknowledged_details)],
    (told) => [told.queue_totals.messages_ready, told.queue_totals.messages_unacknowledged]);
  return html`<h1>Overview</h1>
    <p>EmberMQ ${data.product_version} on <code>${data.node}</code>${data.listeners && ": " + data.listeners.map((/** @type {any} */ l) => `${l.protocol} on port ${l.port}`).join(", ")}</p>
    <${Alarms} raised=${live?.alarms ?? []} />
    <dl>
      <${Card} label="Ready" value=${number(queued.messages_ready)} />
      <${Card} label="Unacked" value=${number(queued.messages_unacknowledged)} />
      <${Card} label="Published" value=${number(stats.publish_details.rate)} small="/s" />
      <${Card} label="Delivered" value=${number(stats.deliver_get_details.rate)} small="/s" />
      <${Card} label="Acked" value=${number(stats.ack_details.rate)} small="/s" />
      <${Card} label="Confirmed" value=${number(stats.confirm_details.rate)} small="/s" />
      <${Card} label="Unroutable" value=${number(stats.return_unroutable_details.rate + stats.drop_unroutable_details.rate)} small="/s" />
      <${Card} label="Queues" value=${html`<a href="#/queues">${number(objects.queues)}</a>`} />
      <${Card} label="Consumers" value=${html`<a href="#/consumers">${number(objects.consumers)}</a>`} />
      <${Card} label="Connections" value=${html`<a href="#/connections">${number(objects.connections)}</a>`} />
    </dl>
    <${Spans} current=${age} />
    <${Chart} title="Message rates" unit="messages/s" times=${rateChart.times}
      lines=${LINES.map(([, label], at) => ({ label, values: rateChart.lines[at] }))} />
    <${Chart} title="Queued messages" unit="messages" times=${lengthChart.times}
      lines=${["ready", "unacked"].map((label, at) => ({ label, values: lengthChart.lines[at] }))} />
    ${session && seesEverything(session) && html`<${Node} />`}
    <p>More: <a href="/api/">the HTTP API</a>, <a href="/metrics">metrics</a>, <a href="/">pages without scripts</a>.</p>`;
}
