// @ts-check
/** The list of consumers. */

import { channelLink, details, named, queueLink, userLink, yes } from "../component/cell.js";
import { path } from "../lib/api.js";
import { duration, number } from "../lib/format.js";

/** @type {import("../component/table.js").Column[]} */
export const CONSUMER_COLUMNS = [
  { label: "Consumer tag", sort: "consumer_tag", cell: (consumer) => named(consumer.consumer_tag) },
  { label: "Queue", sort: "queue.name", cell: (consumer, session) => queueLink(consumer.queue.vhost, consumer.queue.name, session) },
  { label: "Channel", sort: "channel_details.name", cell: (consumer) => consumer.channel_details.name && channelLink(consumer.channel_details.name) },
  { label: "User", sort: "channel_details.user", cell: (consumer, session) => userLink(consumer.channel_details.user ?? "", session) },
  { label: "Acks", sort: "ack_required", cell: (consumer) => (consumer.ack_required ? "manual" : "automatic") },
  { label: "Active", sort: "active", cell: (consumer) => yes(consumer.active) },
  { label: "Exclusive", sort: "exclusive", isExtra: true, cell: (consumer) => yes(consumer.exclusive) },
  { label: "Prefetch", sort: "prefetch_count", isNumber: true, cell: (consumer) => (consumer.prefetch_count ? number(consumer.prefetch_count) : "any") },
  { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (consumer) => number(consumer.messages_unacknowledged) },
  { label: "Time to ack", sort: "consumer_timeout", isExtra: true, cell: (consumer) => (consumer.consumer_timeout ? duration(consumer.consumer_timeout / 1000) : "any") },
  { label: "Arguments", isExtra: true, cell: (consumer) => details(consumer.arguments) },
];

/** @type {import("../page/list.js").List} */
export const CONSUMERS = {
  step: "consumers",
  title: "Consumers",
  noun: "consumer",
  path: "/consumers",
  inVhost: (vhost) => path`/consumers/${vhost}`,
  searches: "part of a consumer tag",
  keyOf: (consumer) => JSON.stringify([consumer.channel_details.name, consumer.consumer_tag]),
  columns: CONSUMER_COLUMNS,
};
