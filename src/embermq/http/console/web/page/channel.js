// @ts-check
/** One channel: its mode, prefetch and rates, and its consumers with what they have not acked. */

import { html } from "../vendor/preact-htm.js";
import { connectionLink, rate, userLink, vhostLink } from "../component/cell.js";
import { Table } from "../component/table.js";
import { Facts, Section, ThingPage } from "../component/thing.js";
import { path } from "../lib/api.js";
import { number } from "../lib/format.js";
import { channelMode, CHANNELS } from "../list/channels.js";
import { CONSUMER_COLUMNS } from "../list/consumers.js";

/** @param {{name: string}} properties */
export function ChannelPage({ name }) {
  const columns = CONSUMER_COLUMNS.filter(({ label }) => label !== "Channel" && label !== "User");
  const show = (/** @type {any} */ channel, /** @type {any} */ session) => html`
    <${Facts} facts=${[
      ["Connection", connectionLink(channel.connection_details.name)],
      ["User", userLink(channel.user, session)],
      ["Virtual host", vhostLink(channel.vhost, session)],
      ["State", channel.state],
      ["Mode", channelMode(channel)],
      ["Prefetch", channel.prefetch_count ? number(channel.prefetch_count) : "any"],
      ["Prefetch of all", channel.global_prefetch_count ? number(channel.global_prefetch_count) : ""],
      ["Unacked", number(channel.messages_unacknowledged)],
      ["Unconfirmed", number(channel.messages_unconfirmed)],
      ["Published", `${rate(channel.message_stats?.publish_details)}/s`],
      ["Delivered", `${rate(channel.message_stats?.deliver_get_details)}/s`],
      ["Acked", `${rate(channel.message_stats?.ack_details)}/s`],
    ]} />
    <${Section} id="consumers" title="Consumers">
      <${Table} label="Consumers" items=${channel.consumer_details} columns=${columns} session=${session} keyOf=${(/** @type {any} */ consumer) => consumer.consumer_tag} nothing="None." />
    <//>`;
  return html`<${ThingPage} address=${path`/channels/${name}`} name=${html`<code>${name}</code>`} title=${name} noun="channel" list=${CHANNELS} show=${show} />`;
}
