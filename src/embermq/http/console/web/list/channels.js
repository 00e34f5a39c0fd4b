// @ts-check
/** The list of channels. */

import { channelLink, rate, USER, VHOST } from "../component/cell.js";
import { path } from "../lib/api.js";
import { number } from "../lib/format.js";

/** @param {any} channel */
export const channelMode = ({ transactional, confirm }) => (transactional ? "transactional" : confirm ? "confirms" : "");

/** @type {import("../component/table.js").Column[]} */
export const CHANNEL_COLUMNS = [
  { label: "Name", sort: "name", cell: (channel) => channelLink(channel.name) },
  VHOST,
  USER,
  { label: "State", sort: "state", cell: (channel) => channel.state },
  { label: "Mode", cell: channelMode },
  { label: "Consumers", sort: "consumer_count", isNumber: true, cell: (channel) => number(channel.consumer_count) },
  { label: "Prefetch", sort: "prefetch_count", isNumber: true, cell: (channel) => (channel.prefetch_count ? number(channel.prefetch_count) : "any") },
  { label: "Unacked", sort: "messages_unacknowledged", isNumber: true, cell: (channel) => number(channel.messages_unacknowledged) },
  { label: "Unconfirmed", sort: "messages_unconfirmed", isNumber: true, cell: (channel) => number(channel.messages_unconfirmed) },
  { label: "In/s", sort: "message_stats.publish_details.rate", isNumber: true, cell: (channel) => rate(channel.message_stats?.publish_details) },
  { label: "Out/s", sort: "message_stats.deliver_get_details.rate", isNumber: true, cell: (channel) => rate(channel.message_stats?.deliver_get_details) },
];

/** @type {import("../page/list.js").List} */
export const CHANNELS = {
  step: "channels",
  title: "Channels",
  noun: "channel",
  path: "/channels",
  inVhost: (vhost) => path`/vhosts/${vhost}/channels`,
  keyOf: (channel) => channel.name,
  columns: CHANNEL_COLUMNS,
};
