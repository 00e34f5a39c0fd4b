// The topology as a graph, and its layout: `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";

const LIB = "../../../src/embermq/http/console/web/lib";
const { collapsed, filtered, graphOf, grouped } = await import(`${LIB}/topology.js`);
const { HEIGHT, layoutOf, WIDTH } = await import(`${LIB}/graph_layout.js`);

const rates = (values) => ({ message_stats: Object.fromEntries(Object.entries(values).map(([name, rate]) => [`${name}_details`, { rate }])) });
const exchange = (name, more = {}) => ({ name, type: "topic", ...more });
const queue = (name, more = {}) => ({ name, type: "classic", messages_ready: 0, consumers: 0, ...more });
const binding = (source, destination, routing_key = "#", destination_type = "queue") => ({ source, destination, destination_type, routing_key, arguments: {} });
const ends = ({ edges }) => edges.map(({ from, to, kind }) => `${from} ${kind} ${to}`).sort();

test("exchanges, queues, dead letters and alternates", () => {
  const dead = { effective_arguments: { "x-dead-letter-exchange": "dlx" } };
  const back = { effective_arguments: { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone" } };
  const graph = graphOf(
    [exchange(""), exchange("amq.fanout"), exchange("in", { effective_arguments: { "alternate-exchange": "else" } }), exchange("dlx"), exchange("else")],
    [queue("a", dead), queue("b", back)],
    [binding("", "a", "a"), binding("in", "a", "x.#"), binding("in", "a", "y.#"), binding("in", "dlx", "z", "exchange")],
  );
  assert.deepEqual(ends(graph), ["e:in alternate e:else", "e:in binding e:dlx", "e:in binding q:a", "q:a dead-letter e:dlx", "q:b dead-letter q:gone"]);
  assert.deepEqual(graph.edges.find(({ to }) => to === "q:a").keys, ["x.#", "y.#"]);
  assert.equal(graph.nodes.get("q:gone").kind, "missing");
  assert.equal(graph.nodes.has("e:amq.fanout"), false, "nothing is bound to it");
  assert.equal(graph.nodes.has("e:"), false);
});

test("what is busy, what is stuck, and rates of edges that are known", () => {
  const graph = graphOf(
    [exchange("in", rates({ publish_in: 100, publish_out: 130 }))],
    [queue("busy", { consumers: 1, messages_ready: 5, ...rates({ publish: 100, deliver_get: 100 }) }), queue("stuck", { messages_ready: 5, consumers: 1, ...rates({ publish: 2 }) }), queue("waits", { messages_ready: 5 })],
    [binding("in", "busy"), binding("in", "stuck")],
  );
  assert.deepEqual([...graph.nodes.values()].map(({ name, state }) => [name, state]), [["in", "hot"], ["busy", "hot"], ["stuck", "stuck"], ["waits", ""]]);
  assert.deepEqual(graph.edges.map(({ to, rate }) => [to, rate]), [["q:busy", 100], ["q:stuck", 2]]);
});

test("filtered, collapsed and grouped", () => {
  const names = ["a", "b", "c", "d", "e"];
  const graph = graphOf([exchange("in"), exchange("next"), exchange("other")], [...names, "z"].map((name) => queue(name)), [
    binding("in", "next", "#", "exchange"), ...names.map((name) => binding("next", name)), binding("other", "z"),
  ]);
  assert.deepEqual([...filtered(graph, "Z").nodes.keys()], ["e:other", "q:z"]);
  assert.deepEqual([...filtered(graph, "NEXT").nodes.keys()].length, 7, "with all that leads there and all that follows");
  assert.deepEqual([...collapsed(graph, ["e:in"]).nodes.keys()], ["e:in", "e:other", "q:z"]);
  const small = grouped(graph);
  assert.deepEqual([...small.nodes.values()].map(({ name }) => name), ["in", "next", "other", "z", "5 queues"]);
  assert.equal(small.edges.length, 3);
  assert.deepEqual([...filtered(small, "c").nodes.values()].map(({ name }) => name), ["in", "next", "5 queues"], "a member is found by its name");
});

test("no two nodes overlap, edges lead to the right, circles too", () => {
  const count = 2000;
  const queues = Array.from({ length: count * 0.9 }, (_, at) => queue(`q${at}`, at % 10 ? {} : { effective_arguments: { "x-dead-letter-exchange": "e1" } }));
  const exchanges = Array.from({ length: count * 0.1 }, (_, at) => exchange(`e${at}`));
  const bindings = queues.map(({ name }, at) => binding(`e${(at * 7) % exchanges.length}`, name));
  const graph = graphOf(exchanges, queues, bindings);
  const { places, width, height } = layoutOf(graph);
  assert.equal(places.size, count);
  const cells = new Set();
  for (const { x, y } of places.values()) {
    assert.ok(x >= 0 && y >= 0 && x + WIDTH <= width + 0.01 && y + HEIGHT <= height + 0.01);
    cells.add(`${x} ${y}`);
  }
  assert.equal(cells.size, count);
  assert.ok(width / height > 0.5 && width / height < 5, `${width} by ${height}`);
  const forward = graph.edges.filter(({ from, to, kind }) => kind === "binding" && places.get(from).x < places.get(to).x);
  assert.ok(forward.length > bindings.length * 0.9);
});

test("nothing, and a queue that is its own dead letter", () => {
  assert.equal(layoutOf(graphOf([], [], [])).places.size, 0);
  const self = graphOf([], [queue("a", { effective_arguments: { "x-dead-letter-exchange": "" } })], []);
  assert.deepEqual(ends(self), ["q:a dead-letter q:a"]);
  assert.equal(layoutOf(self).places.size, 1);
});
