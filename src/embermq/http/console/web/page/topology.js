// @ts-check
/** The topology of a virtual host: exchanges, queues and the ways of messages between them, with what goes by now. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { facts, GraphView } from "../component/graph.js";
import { path, session as current } from "../lib/api.js";
import { download } from "../lib/download.js";
import { counted, number } from "../lib/format.js";
import { layoutOf } from "../lib/graph_layout.js";
import { usePolled } from "../lib/poll.js";
import { changeQuery, go, hashOf, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { collapsed, filtered, graphOf, grouped } from "../lib/topology.js";

const QUEUE_COLUMNS = "name,type,consumers,messages_ready,effective_arguments,message_stats.publish_details.rate,message_stats.deliver_get_details.rate";
const EXCHANGE_COLUMNS = "name,type,effective_arguments,message_stats.publish_in_details.rate,message_stats.publish_out_details.rate";
const BINDING_COLUMNS = "source,destination,destination_type,routing_key,arguments";
const TYPING_MS = 250;
const NAMED_MAX = 40; // of a group or of bindings, beside the picture

/** @param {string} vhost */
function useTopology(vhost) {
  const { data: queues, error } = usePolled(path`/queues/${vhost}` + `?columns=${QUEUE_COLUMNS}`);
  const { data: exchanges } = usePolled(path`/exchanges/${vhost}` + `?columns=${EXCHANGE_COLUMNS}`);
  const { data: bindings } = usePolled(path`/bindings/${vhost}` + `?columns=${BINDING_COLUMNS}`, 60_000);
  const graph = useMemo(() => (queues && exchanges && bindings ? graphOf(exchanges, queues, bindings) : null), [queues, exchanges, bindings]);
  return { graph, error };
}

/** @param {{id: string, graph: import("../lib/topology.js").Graph, select: (id: string) => void}} properties */
function NodeLink({ id, graph, select }) {
  const node = graph.nodes.get(id);
  return node && html`<button type="button" class="plain" onClick=${() => select(id)}><code>${node.name}</code></button>`;
}

/** @param {{vhost: string, graph: import("../lib/topology.js").Graph, selected: string, select: (id: string) => void, closed: string[]}} properties */
function Details({ vhost, graph, selected, select, closed }) {
  const node = graph.nodes.get(selected);
  if (!node) {
    return html`<p><small>Drag to move, scroll to zoom. With the keyboard: arrows walk along the edges, + and − zoom, 0 shows all, Enter opens.</small></p>`;
  }
  const into = graph.edges.filter(({ to }) => to === selected);
  const outOf = graph.edges.filter(({ from }) => from === selected);
  const isClosed = closed.includes(selected);
  const toggle = () => changeQuery({ closed: (isClosed ? closed.filter((id) => id !== selected) : [...closed, selected]).join("\n") });
  const list = (/** @type {string} */ title, /** @type {any[]} */ edges, /** @type {"from" | "to"} */ end) =>
    edges.length > 0 &&
    html`<h3>${title}</h3><ul class="ways">${edges.slice(0, NAMED_MAX).map(
      (edge) => html`<li><${NodeLink} id=${edge[end]} graph=${graph} select=${select} /> <small>${edge.kind === "binding" ? edge.keys.slice(0, 5).join(", ") : edge.kind}${edge.rate ? ` · ${number(edge.rate)}/s` : ""}</small></li>`,
    )}</ul>${edges.length > NAMED_MAX && html`<p><small>and ${number(edges.length - NAMED_MAX)} more</small></p>`}`;
  const href = node.kind === "exchange" ? hashOf(["exchanges", vhost, node.name]) : hashOf(["queues", vhost, node.name]);
  return html`<h2>${node.kind === "group" || node.kind === "missing" ? node.name : html`<a href=${href}><code>${node.name}</code></a>`}</h2>
    <p>${node.kind === "group" ? "bound alike" : node.kind}: ${facts(node)}</p>
    ${node.state === "stuck" && html`<p class="alarm">Messages wait and none is delivered. ${node.consumers ? "Its consumers do not take any: look at their prefetch and unacked messages." : "It has no consumer."}</p>`}
    ${node.kind === "exchange" && html`<p><a href=${hashOf(["route-test", vhost], { exchange: node.name })}>Test a route from here</a></p>`}
    ${outOf.length > 0 && html`<p><button type="button" aria-pressed=${isClosed} onClick=${toggle}>${isClosed ? "Show what follows" : "Hide what follows"}</button></p>`}
    ${node.members.length > 0 && html`<ul class="ways">${node.members.slice(0, NAMED_MAX).map((name) => html`<li><a href=${hashOf(["queues", vhost, name])}><code>${name}</code></a></li>`)}</ul>
      ${node.members.length > NAMED_MAX && html`<p><small>and ${number(node.members.length - NAMED_MAX)} more</small></p>`}`}
    ${list("Comes from", into, "from")} ${list("Goes to", outOf, "to")}`;
}

/** @param {{query: Record<string, string>}} properties */
function Filter({ query }) {
  const [text, setText] = useState(query.name ?? "");
  useEffect(() => {
    if (text === (query.name ?? "")) return undefined;
    const timer = setTimeout(() => changeQuery({ name: text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="search">Show <input type="search" name="filter" value=${text} placeholder="part of a name" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>`;
}

/** @param {{vhost?: string}} properties */
export function Topology({ vhost: asked }) {
  const { query } = useSignal(route);
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const vhosts = session.permissions.map(({ vhost }) => vhost);
  const vhost = asked ?? vhosts[0] ?? "/";
  const { graph, error } = useTopology(vhost);
  const [selected, setSelected] = useState("");
  const view = useRef(/** @type {any} */ (null));
  const closed = useMemo(() => (query.closed ?? "").split("\n").filter(Boolean), [query.closed]);
  const isGrouped = query.grouped !== "no";
  const shown = useMemo(() => {
    if (!graph) return null;
    const kept = collapsed(filtered(graph, query.name ?? ""), closed);
    return isGrouped ? grouped(kept) : kept;
  }, [graph, query.name, closed, isGrouped]);
  // Numbers change all the time; places only with what there is.
  const shape = shown && JSON.stringify([[...shown.nodes.keys()], shown.edges.map(({ from, to }) => [from, to])]);
  const layout = useMemo(() => shown && layoutOf(shown), [shape]);
  useEffect(() => {
    document.title = "Topology – EmberMQ";
  }, []);
  const open = (/** @type {string} */ id) => {
    const node = shown?.nodes.get(id);
    if (node && node.kind !== "group" && node.kind !== "missing") go(node.kind === "exchange" ? "exchanges" : "queues", vhost, node.name);
  };
  const count = (/** @type {string} */ state) => [...(graph?.nodes.values() ?? [])].filter((node) => node.state === state).length;
  const keep = () => download(`topology-${vhost === "/" ? "default" : vhost}.svg`, "image/svg+xml", view.current.svg());
  return html`<div class="over"><h1>Topology</h1>
      ${vhosts.length > 1 && html`<label>Virtual host <select value=${vhost} onChange=${(/** @type {any} */ event) => go("topology", event.target.value)}>
        ${vhosts.map((name) => html`<option value=${name} selected=${name === vhost}>${name}</option>`)}</select></label>`}
    </div>
    ${error && html`<p class="alarm" role="alert">${error.message}</p>`}
    <div class="tools">
      <${Filter} query=${query} />
      <label><input type="checkbox" name="grouped" checked=${isGrouped} onChange=${() => changeQuery({ grouped: isGrouped ? "no" : undefined })} /> Group queues that are bound alike</label>
      ${closed.length > 0 && html`<button type="button" onClick=${() => changeQuery({ closed: undefined })}>Show all</button>`}
      <button type="button" aria-label="Zoom in" onClick=${() => view.current.zoom(1.25)}>+</button>
      <button type="button" aria-label="Zoom out" onClick=${() => view.current.zoom(0.8)}>−</button>
      <button type="button" onClick=${() => view.current.fit()}>Fit</button>
      <button type="button" disabled=${!layout} onClick=${keep}>Save as SVG</button>
    </div>
    ${shown && layout && html`<p role="status">${counted(shown.nodes.size, "node")}, ${counted(shown.edges.length, "edge")}${count("stuck") > 0 && html`, <strong class="bad">${number(count("stuck"))} stuck</strong>`}</p>
      ${shown.nodes.size === 0
        ? html`<p class="nothing">${query.name ? "Nothing is found." : "No queues and no bindings yet."}</p>`
        : html`<div class="beside-graph">
            <${GraphView} label=${`Topology of ${vhost}`} graph=${shown} layout=${layout} selected=${selected} select=${setSelected} open=${open} view=${view} />
            <aside aria-label="Selected" aria-live="polite"><${Details} vhost=${vhost} graph=${shown} selected=${selected} select=${setSelected} closed=${closed} /></aside>
          </div>
          <p class="legend"><span class="key exchange">exchange</span><span class="key">queue</span><span class="key hot">busy</span><span class="key stuck">stuck: messages wait, none is delivered</span> <small>Dashed: dead letters and alternates. Rates are those of some seconds; an edge has one where no other leads to the same place.</small></p>`}`}`;
}
