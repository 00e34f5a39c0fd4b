// @ts-check
/** The list of streams. */

import { inVhost, keyInVhost, queueLink, sum, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { counted, number, size, time } from "../lib/format.js";
import { may, vhostsToConfigure } from "../lib/permission.js";

/** @type {import("../page/list.js").List} */
export const STREAMS = {
  step: "streams",
  title: "Streams",
  noun: "stream",
  path: "/streams",
  inVhost: (vhost) => path`/streams/${vhost}`,
  keyOf: keyInVhost,
  create: { label: "Declare a stream", href: "#/declare/queue?type=stream", may: (session) => vhostsToConfigure(session).length > 0 },
  columns: [
    { label: "Name", sort: "name", cell: (stream, session) => queueLink(stream.vhost, stream.name, session) },
    VHOST,
    { label: "Messages", sort: "messages", isNumber: true, cell: (stream) => number(stream.messages) },
    { label: "Size", sort: "bytes", isNumber: true, cell: (stream) => size(stream.bytes) },
    { label: "First offset", sort: "first_offset", isNumber: true, cell: (stream) => number(stream.first_offset) },
    { label: "Next offset", sort: "next_offset", isNumber: true, cell: (stream) => number(stream.next_offset) },
    { label: "Segments", sort: "segments", isNumber: true, isExtra: true, cell: (stream) => number(stream.segments) },
    { label: "Oldest until", sort: "oldest_segment_ends_ms", isExtra: true, cell: (stream) => stream.oldest_segment_ends_ms && time(stream.oldest_segment_ends_ms) },
    { label: "Consumers", isNumber: true, cell: (stream) => number(stream.consumers.length) },
    { label: "Largest lag", isNumber: true, cell: (stream) => number(Math.max(0, ...stream.consumers.map((/** @type {any} */ consumer) => consumer.lag))) },
  ],
  actions: [
    {
      verb: "Delete",
      may: (session, stream) => may(session, "configure", stream.vhost, stream.name),
      names: inVhost,
      loss: (streams) => `${counted(sum(streams, "messages"), "message")} (${size(sum(streams, "bytes"))}) will be lost. This cannot be undone.`,
      act: (stream) => ask("DELETE", path`/queues/${stream.vhost}/${stream.name}`),
    },
  ],
};
