// @ts-check
/** The topology of a virtual host as a graph: exchanges and queues, and the ways that messages take between them. */

/**
 * @typedef {{
 *   id: string, kind: "exchange" | "queue" | "stream" | "group" | "missing", name: string, type: string,
 *   rate: number, rateOut: number, ready: number, consumers: number, state: "" | "hot" | "stuck", members: string[],
 * }} Node  `rate`: messages/s that come in; `members`: names of the queues that a group stands for
 * @typedef {{from: string, to: string, kind: "binding" | "dead-letter" | "alternate", keys: string[], rate: number | null}} Edge
 *   `rate`: null where it is not known, because several ways lead to the same place
 * @typedef {{nodes: Map<string, Node>, edges: Edge[]}} Graph
 */

const GROUP_MIN = 4; // queues that are bound alike
const KEYS_MAX = 50; // of one edge that are kept

export const exchangeId = (/** @type {string} */ name) => "e:" + name;
export const queueId = (/** @type {string} */ name) => "q:" + name;
const rateOf = (/** @type {any} */ thing, /** @type {string} */ name) => thing.message_stats?.[`${name}_details`]?.rate ?? 0;

/** @param {any} queue @returns {Node} */
function queueNode(queue) {
  const rateOut = rateOf(queue, "deliver_get");
  const ready = queue.messages_ready ?? 0;
  const isStream = queue.type === "stream";
  const isStuck = !isStream && ready > 0 && rateOut === 0 && (queue.consumers > 0 || rateOf(queue, "publish") > 0);
  return {
    id: queueId(queue.name), kind: isStream ? "stream" : "queue", name: queue.name, type: queue.type, rate: rateOf(queue, "publish"), rateOut, ready,
    consumers: queue.consumers ?? 0, state: isStuck ? "stuck" : "", members: [],
  };
}

/** @param {any} exchange @returns {Node} */
function exchangeNode(exchange) {
  return {
    id: exchangeId(exchange.name), kind: "exchange", name: exchange.name, type: exchange.type, rate: rateOf(exchange, "publish_in"),
    rateOut: rateOf(exchange, "publish_out"), ready: 0, consumers: 0, state: "", members: [],
  };
}

/** Edges by their ends, each with all its keys. */
class Edges {
  constructor() {
    /** @type {Map<string, Edge>} */
    this.byEnds = new Map();
  }

  /** @param {string} from @param {string} to @param {Edge["kind"]} kind @param {string} key */
  add(from, to, kind, key) {
    const ends = JSON.stringify([from, to, kind]);
    const edge = this.byEnds.get(ends) ?? { from, to, kind, keys: [], rate: null };
    if (edge.keys.length < KEYS_MAX) edge.keys.push(key);
    this.byEnds.set(ends, edge);
  }
}

/** @param {any} binding */
function keyOf({ routing_key, arguments: table }) {
  const shown = Object.entries(table ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [routing_key, ...shown].filter(Boolean).join(" ");
}

/**
 * @param {any[]} exchanges @param {any[]} queues @param {any[]} bindings as the API has them
 * @returns {Graph} without exchanges of AMQP's that nothing is bound to
 */
export function graphOf(exchanges, queues, bindings) {
  /** @type {Map<string, Node>} */
  const nodes = new Map();
  for (const exchange of exchanges) if (exchange.name) nodes.set(exchangeId(exchange.name), exchangeNode(exchange));
  for (const queue of queues) nodes.set(queueId(queue.name), queueNode(queue));
  const edges = new Edges();
  for (const binding of bindings) {
    if (!binding.source) continue; // every queue is bound to the default exchange
    const to = binding.destination_type === "queue" ? queueId(binding.destination) : exchangeId(binding.destination);
    edges.add(exchangeId(binding.source), to, "binding", keyOf(binding));
  }
  const missing = (/** @type {string} */ id) => {
    if (!nodes.has(id)) nodes.set(id, { id, kind: "missing", name: id.slice(2), type: "", rate: 0, rateOut: 0, ready: 0, consumers: 0, state: "", members: [] });
  };
  for (const queue of queues) {
    const { "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key } = queue.effective_arguments ?? {};
    if (exchange === undefined) continue;
    const to = exchange === "" ? queueId(key ?? queue.name) : exchangeId(exchange);
    missing(to);
    edges.add(queueId(queue.name), to, "dead-letter", key ?? "");
  }
  for (const exchange of exchanges) {
    const alternate = exchange.effective_arguments?.["alternate-exchange"];
    if (alternate === undefined || !exchange.name) continue;
    missing(exchangeId(alternate));
    edges.add(exchangeId(exchange.name), exchangeId(alternate), "alternate", "");
  }
  const all = [...edges.byEnds.values()].filter(({ from, to }) => nodes.has(from) && nodes.has(to));
  const used = new Set(all.flatMap(({ from, to }) => [from, to]));
  for (const [id, node] of nodes) if (node.kind === "exchange" && node.name.startsWith("amq.") && !used.has(id) && !node.rate) nodes.delete(id);
  return withRates({ nodes, edges: all });
}

/** The rate of an edge is that of its end where no other edge leads there or leaves. @param {Graph} graph */
function withRates({ nodes, edges }) {
  /** @type {Map<string, number>} */
  const into = new Map(), outOf = new Map();
  for (const { from, to } of edges) {
    into.set(to, (into.get(to) ?? 0) + 1);
    outOf.set(from, (outOf.get(from) ?? 0) + 1);
  }
  for (const edge of edges) {
    const [from, to] = [/** @type {Node} */ (nodes.get(edge.from)), /** @type {Node} */ (nodes.get(edge.to))];
    if (edge.kind !== "binding") edge.rate = null;
    else if (from.rateOut === 0 && from.kind === "exchange") edge.rate = 0;
    else if (into.get(edge.to) === 1) edge.rate = to.rate;
    else if (outOf.get(edge.from) === 1) edge.rate = from.rateOut;
  }
  const busiest = Math.max(...[...nodes.values()].map(({ rate }) => rate), 0);
  for (const node of nodes.values()) if (!node.state && node.rate > 0 && node.rate >= busiest / 4) node.state = "hot";
  return { nodes, edges };
}

/** Ends of edges: those that each node leads to, and those that lead to it. @param {Edge[]} edges */
export function neighbours(edges) {
  const after = byKey(edges, ({ from }) => from, ({ to }) => to);
  const before = byKey(edges, ({ to }) => to, ({ from }) => from);
  return { after, before };
}

/** @template T, V @param {Iterable<T>} items @param {(item: T) => string} key @param {(item: T) => V} value @returns {Map<string, V[]>} */
function byKey(items, key, value) {
  const found = new Map();
  for (const item of items) {
    const known = found.get(key(item));
    if (known) known.push(value(item));
    else found.set(key(item), [value(item)]);
  }
  return found;
}

/** @param {Iterable<string>} starts @param {Map<string, string[]>} ways @returns {Set<string>} */
function reached(starts, ways) {
  const found = new Set(starts);
  for (const id of found) for (const next of ways.get(id) ?? []) found.add(next);
  return found;
}

/** @param {Graph} graph @param {Set<string>} kept @returns {Graph} */
function only({ nodes, edges }, kept) {
  return {
    nodes: new Map([...nodes].filter(([id]) => kept.has(id))),
    edges: edges.filter(({ from, to }) => kept.has(from) && kept.has(to)),
  };
}

/** What has the text in its name, with all that leads there and all that follows. @param {Graph} graph @param {string} text */
export function filtered(graph, text) {
  const wanted = text.toLowerCase();
  if (!wanted) return graph;
  const found = [...graph.nodes.values()].filter(({ name, members }) => [name, ...members].some((known) => known.toLowerCase().includes(wanted)));
  const ids = found.map(({ id }) => id);
  const { after, before } = neighbours(graph.edges);
  return only(graph, new Set([...reached(ids, after), ...reached(ids, before)]));
}

/** Without what only follows these. @param {Graph} graph @param {string[]} closed */
export function collapsed(graph, closed) {
  if (closed.length === 0) return graph;
  const { after, before } = neighbours(graph.edges);
  const open = new Map([...after].filter(([id]) => !closed.includes(id)));
  const starts = [...graph.nodes.keys()].filter((id) => !(before.get(id) ?? []).length || closed.includes(id));
  const follows = reached(closed.flatMap((id) => after.get(id) ?? []), after);
  const still = reached(starts, open);
  return only(graph, new Set([...graph.nodes.keys()].filter((id) => !follows.has(id) || still.has(id))));
}

/** Queues that are bound alike and lead nowhere, as one. @param {Graph} graph @returns {Graph} */
export function grouped(graph) {
  const { after, before } = neighbours(graph.edges);
  const leaves = [...graph.nodes.values()].filter(({ id, kind, state }) => kind !== "exchange" && !after.has(id) && state !== "stuck");
  const alike = byKey(leaves, ({ id, kind }) => JSON.stringify([kind, ...(before.get(id) ?? [])]), (node) => node);
  const nodes = new Map(graph.nodes);
  /** @type {Map<string, string>} */
  const groupOf = new Map();
  for (const [key, members] of alike) {
    if (members.length < GROUP_MIN) continue;
    const id = "g:" + key;
    const sum = (/** @type {"rate" | "rateOut" | "ready" | "consumers"} */ name) => members.reduce((total, member) => total + member[name], 0);
    for (const member of members) {
      nodes.delete(member.id);
      groupOf.set(member.id, id);
    }
    nodes.set(id, {
      id, kind: "group", name: `${members.length} ${members[0].kind}s`, type: members[0].type, rate: sum("rate"), rateOut: sum("rateOut"), ready: sum("ready"),
      consumers: sum("consumers"), state: members.some(({ state }) => state === "hot") ? "hot" : "", members: members.map(({ name }) => name),
    });
  }
  const edges = new Map();
  for (const edge of graph.edges) {
    const to = groupOf.get(edge.to) ?? edge.to;
    const ends = JSON.stringify([edge.from, to, edge.kind]);
    const known = edges.get(ends);
    if (!known) edges.set(ends, { ...edge, to, keys: [...edge.keys] });
    else {
      known.rate = known.rate === null || edge.rate === null ? null : known.rate + edge.rate;
      for (const key of edge.keys) if (known.keys.length < KEYS_MAX && !known.keys.includes(key)) known.keys.push(key);
    }
  }
  return { nodes, edges: [...edges.values()] };
}
