// Messages as they are shown: `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";

const LIB = "../../../src/embermq/http/console/web/lib";
const { bodyOf, indented, story, tableOf, typeOf, unpacked } = await import(`${LIB}/message.js`);

const message = (payload, content_type, payload_encoding = "string", payload_bytes = undefined) => ({
  payload, payload_encoding, properties: { content_type }, payload_bytes: payload_bytes ?? (payload_encoding === "base64" ? atob(payload) : payload).length,
});

test("tables that are typed in", () => {
  assert.deepEqual(tableOf("headers", " "), {});
  assert.deepEqual(tableOf("headers", '{"a": 1}'), { a: 1 });
  for (const text of ["x", "[1]", "null", "3"]) assert.throws(() => tableOf("headers", text), /headers must be a JSON object/);
});

test("types of values", () => {
  assert.deepEqual([null, [1], 1, 1.5, true, "a", {}].map(typeOf), ["void", "array", "integer", "double", "boolean", "text", "table"]);
});

test("the story of a dead letter, oldest first", () => {
  const deaths = [
    { reason: "expired", queue: "retry", exchange: "", count: 3, "routing-keys": ["retry"] },
    { reason: "rejected", queue: "orders", exchange: "shop", count: 1, "routing-keys": ["order.new"] },
  ];
  assert.deepEqual(story({ "x-death": deaths }), [
    "It was rejected in queue orders. It had come through exchange shop with the key order.new.",
    "It expired 3 times in queue retry. It had come through the default exchange with the key retry.",
  ]);
  assert.deepEqual(story({ "x-death": "nonsense" }), []);
  assert.deepEqual(story(undefined), []);
});

test("bodies by content type", () => {
  assert.equal(bodyOf(message('{"a": 1}', "application/json")).kind, "json");
  assert.equal(bodyOf(message("{no", "application/json")).kind, "text");
  assert.equal(bodyOf(message("[1]")).kind, "json", "what looks like it");
  assert.equal(bodyOf(message("hello", "text/plain")).kind, "text");
  assert.equal(bodyOf(message(btoa("\xff\x00"), undefined, "base64")).kind, "hex");
  assert.deepEqual(bodyOf(message(btoa("\x81\xa1a\x93\x01\xc3\xc0"), "application/msgpack", "base64")).value, { a: [1, true, null] });
  assert.equal(bodyOf(message(btoa("\x89PNG"), "image/png", "base64")).value, "data:image/png;base64,iVBORw==");
  assert.equal(bodyOf(message(btoa("\x89PNG"), "image/png", "base64", 100)).kind, "hex", "a part of an image is none");
  assert.equal(bodyOf(message("<svg onload='x'/>", "image/svg+xml")).kind, "text", "SVG may have scripts in it");
});

test("msgpack that is cut off, or none", () => {
  for (const bytes of [[], [0x81], [0xdb, 255, 255, 255, 255], [0xdd, 255, 255, 255, 255], [1, 2], [0xc1], [0xa1, 0xff]]) {
    assert.equal(unpacked(Uint8Array.from(bytes)), undefined);
  }
});

test("XML in lines", () => {
  assert.equal(indented("<a><b>1</b><c/></a>"), "<a>\n  <b>1</b>\n  <c/>\n</a>");
});
