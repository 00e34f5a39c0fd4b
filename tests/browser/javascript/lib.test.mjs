// The logic of the console, without a browser: `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";

const LIB = "../../../src/embermq/http/console/web/lib";
const { encoded, path } = await import(`${LIB}/api.js`);
const { argumentsOf, argumentSources, QUEUE_ARGUMENTS } = await import(`${LIB}/argument.js`);
const events = await import(`${LIB}/events.js`);
const format = await import(`${LIB}/format.js`);
const { pageOfArray } = await import(`${LIB}/listing.js`);
const { may, vhostsToConfigure } = await import(`${LIB}/permission.js`);
const { actOnAll } = await import(`${LIB}/bulk.js`);
const { fieldOf } = await import(`${LIB}/refusal.js`);
const recent = await import(`${LIB}/recent.js`);
const { hashOf, matched, parseHash } = await import(`${LIB}/router.js`);
const { hasSpike, lengths, rates, times } = await import(`${LIB}/sample.js`);

test("names in paths", () => {
  assert.equal(path`/queues/${"/"}/${"a b/ü?#%"}`, "/queues/%2F/a%20b%2F%C3%BC%3F%23%25");
  assert.equal(encoded("☕𝄞"), "%E2%98%95%F0%9D%84%9E");
  assert.equal(encoded("a\udcff"), "a%ff", "bytes that are no UTF-8");
});

test("addresses of pages", () => {
  for (const steps of [[], ["queues"], ["queues", "/", "<a>?&#/%"], ["queues", "..", "."]]) {
    assert.deepEqual(parseHash(hashOf(steps)), { steps, query: {} });
  }
  assert.equal(hashOf(["queues"], { name: "a&b", page: 2, sort: undefined, columns: "" }), "#/queues?name=a%26b&page=2");
  assert.deepEqual(parseHash("#/queues?name=a%26b?"), { steps: ["queues"], query: { name: "a&b?" } });
  assert.deepEqual(parseHash("#/%zz").steps, ["%zz"], "no error for what is no encoding");
});

test("numbers, sizes and times", () => {
  assert.deepEqual([0, 12345, 0.25, 12.6, undefined].map(format.number), ["0", "12,345", "0.3", "13", ""]);
  assert.deepEqual([0, 1023, 1536, 150 * 1024, 3 * 2 ** 40].map(format.size), ["0 B", "1,023 B", "1.5 KiB", "150 KiB", "3 TiB"]);
  assert.deepEqual([0, 59, 61, 90061].map(format.duration), ["0 s", "59 s", "1 min 1 s", "1 d 1 h"]);
  assert.deepEqual([0, 1, 2].map((count) => format.counted(count, "policy")), ["0 policies", "1 policy", "2 policies"]);
});

test("bodies", () => {
  assert.equal(format.body('{"a":1}', "string"), '{\n  "a": 1\n}');
  assert.equal(format.body("{no json", "string"), "{no json");
  assert.equal(format.body(btoa("\x00A\xff"), "base64"), `0000  ${"00 41 ff".padEnd(47)}  .A.`);
});

test("permissions are patterns, and the empty one allows nothing", () => {
  const session = { name: "a", tags: [], permissions: [{ vhost: "/", configure: "", write: "^a", read: "(" }] };
  assert.equal(may(session, "configure", "/", "a"), false);
  assert.equal(may(session, "write", "/", "ab"), true);
  assert.equal(may(session, "write", "/", "ba"), false);
  assert.equal(may(session, "write", "/", ""), true, "the default exchange is amq.default");
  assert.equal(may(session, "read", "/", "x"), true, "the server decides what only it understands");
  assert.equal(may(session, "write", "other", "ab"), false);
  assert.deepEqual(vhostsToConfigure(session), []);
});

test("arguments of a form and where effective ones come from", () => {
  const fields = { "x-message-ttl": "60", "x-overflow": "", "x-single-active-consumer": true, name: "q" };
  assert.deepEqual(argumentsOf(fields, QUEUE_ARGUMENTS), { "x-message-ttl": 60, "x-single-active-consumer": true });
  const queue = {
    arguments: { "x-max-length": 10, "x-expires": 5 },
    effective_arguments: { "x-max-length": 3, "x-expires": 5, "x-delivery-limit": 20 },
    effective_policy_definition: { "max-length": 3 },
    policy: "short",
    operator_policy: null,
  };
  assert.deepEqual(argumentSources(queue).map(({ name, source }) => [name, source]), [
    ["x-delivery-limit", "default"],
    ["x-expires", "declared"],
    ["x-max-length", "policy short"],
  ]);
});

test("samples come newest first and are drawn oldest first", () => {
  const details = { rate: 0, samples: [{ sample: 30, timestamp: 20000 }, { sample: 10, timestamp: 10000 }, { sample: 15, timestamp: 0 }] };
  assert.deepEqual(times(details), [0, 10, 20]);
  assert.deepEqual(lengths(details), [15, 10, 30]);
  assert.deepEqual(rates(details), [null, 0, 2], "a counter that began again is no negative rate");
  assert.deepEqual(rates(undefined), []);
});

test("a spike is one beside the usual values", () => {
  assert.equal(hasSpike([[null, 0, 1, 1, 1, 1_000_000]]), true);
  assert.equal(hasSpike([[0, 10, 20, 30, 40]]), false);
  assert.equal(hasSpike([[0, 0, 0, 60]]), false, "one value alone is none");
});

test("lists in one piece", () => {
  const all = [{ name: "b", count: 10 }, { name: "a", count: 9 }, { name: "c", count: 100 }];
  const names = (query) => pageOfArray(all, query, 2).items.map(({ name }) => name);
  assert.deepEqual(names({}), ["b", "a"]);
  assert.deepEqual(names({ sort: "count", sort_reverse: "true" }), ["c", "b"]);
  assert.deepEqual(names({ sort: "name", page: "2" }), ["c"]);
  assert.deepEqual(names({ page: "99" }), ["c"], "the last page where there are no more");
  assert.deepEqual(names({ name: "C" }), ["c"]);
});

test("events are cut out of the stream, wherever it is cut", () => {
  const told = [];
  const parse = events.parser((name, value) => told.push([name, value]));
  const text = 'retry: 2000\n\nevent: change\ndata: {"lists":["queues"]}\n\nevent: node\ndata: {"a":"x: y"}\n\n';
  for (const character of text) parse(character);
  assert.deepEqual(told, [["change", { lists: ["queues"] }], ["node", { a: "x: y" }]]);
});

test("a change concerns the addresses that have the list in them", () => {
  const count = () => ["/queues?page=1", "/queues/%2F/q/bindings", "/users"].map(events.changeCount);
  const before = count();
  events.onEvent("change", { lists: ["bindings"] });
  events.onEvent("change", { lists: ["queues", "bindings"] });
  assert.deepEqual(count().map((now, at) => now - before[at]), [1, 3, 0]);
});

test("activity is counted when messages move", () => {
  const told = (publish) => ({ timestamp: 1, message_stats: { publish }, queue_totals: { messages: 0 } });
  const before = events.activity.get();
  for (const publish of [1, 1, 2, 2, 2]) events.onEvent("overview", told(publish));
  assert.equal(events.activity.get() - before, 2);
});

test("the page of an address", () => {
  assert.deepEqual(matched("queues/{vhost}/{name}", ["queues", "/", "a"]), { vhost: "/", name: "a" });
  assert.deepEqual(matched("", []), {});
  assert.equal(matched("queues/{vhost}/{name}", ["queues"]), null);
  assert.equal(matched("declare/queue", ["declare", "exchange"]), null);
});

test("the field that a refusal is about", () => {
  const fields = { name: "orders", "x-max-length": "10", "x-max-length-bytes": "", pattern: "(" };
  assert.equal(fieldOf("inequivalent arg 'x-max-length' for queue 'orders'", fields), "x-max-length");
  assert.equal(fieldOf("invalid arg 'x-max-length-bytes' for queue 'orders'", fields), "x-max-length-bytes");
  assert.equal(fieldOf("10 is not a valid maximum length", fields, { "x-max-length": "maximum length" }), "x-max-length");
  assert.equal(fieldOf('["invalid_regexp","(","no end"]', fields), "pattern");
  assert.equal(fieldOf("a user needs a name", fields), "name");
  assert.equal(fieldOf("Access refused.", fields), "");
});

test("an action on many things, and back", async () => {
  const gone = [];
  const act = async (item) => {
    if (item === 2) throw new Error("no");
    gone.push(item);
    return async () => gone.splice(gone.indexOf(item), 1);
  };
  const steps = [];
  const { done, failures, undo } = await actOnAll([1, 2, 3], act, (count) => steps.push(count));
  assert.deepEqual([done, failures, steps], [[1, 3], [{ item: 2, reason: "no" }], [1, 2, 3]]);
  await undo();
  assert.deepEqual(gone, []);
  assert.equal((await actOnAll([1], async () => null, () => {})).undo, undefined, "there is no way back");
});

test("a chart goes on with what the events told", () => {
  recent.forget();
  for (const second of [100, 101, 102]) recent.remember({ timestamp: second * 1000, value: second });
  const chart = recent.continued([95, 100], [[1, 2]], ({ value }) => [value], 5);
  assert.deepEqual(chart, { times: [100, 101, 102], lines: [[2, 101, 102]] });
  recent.remember({ timestamp: 900_000, value: 7 });
  assert.deepEqual(recent.continued([], [[]], ({ value }) => [value], 5), { times: [900], lines: [[7]] }, "ten minutes are kept");
  recent.remember({ timestamp: 5000, value: 8 });
  assert.deepEqual(recent.continued([], [[]], ({ value }) => [value], 5).times, [5], "another clock");
  recent.forget();
  assert.deepEqual(recent.continued([1], [[2]], () => [], 5), { times: [1], lines: [[2]] });
});
