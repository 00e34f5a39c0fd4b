// @ts-check
/** One connection: what the client says of itself, bytes, channels; close it with a reason. */

import { html } from "../vendor/preact-htm.js";
import { userLink, vhostLink } from "../component/cell.js";
import { Table } from "../component/table.js";
import { Facts, Section, ThingPage } from "../component/thing.js";
import { path } from "../lib/api.js";
import { number, size, time, value } from "../lib/format.js";
import { usePolled } from "../lib/poll.js";
import { CHANNEL_COLUMNS } from "../list/channels.js";
import { CLOSE, CONNECTIONS, givenName } from "../list/connections.js";

/** @param {{name: string, session: any}} properties */
function Channels({ name, session }) {
  const { data } = usePolled(path`/connections/${name}/channels`);
  const columns = CHANNEL_COLUMNS.filter(({ label }) => label !== "User" && label !== "Virtual host");
  return html`<${Table} label="Channels" items=${data ?? []} columns=${columns} session=${session} keyOf=${(/** @type {any} */ channel) => channel.name} nothing="None." />`;
}

/** @param {{name: string}} properties */
export function ConnectionPage({ name }) {
  const show = (/** @type {any} */ connection, /** @type {any} */ session) => html`
    <${Facts} facts=${[
      ["Named", givenName(connection)],
      ["User", userLink(connection.user, session)],
      ["Virtual host", vhostLink(connection.vhost, session)],
      ["State", connection.state],
      ["Protocol", connection.protocol],
      ["TLS", connection.ssl ? "yes" : "no"],
      ["Mechanism", connection.auth_mechanism],
      ["From", `${connection.peer_host}:${connection.peer_port}`],
      ["Since", time(connection.connected_at)],
      ["Heartbeat", `${number(connection.timeout)} s`],
      ["Received", `${size(connection.recv_oct)}, ${size(connection.recv_oct_details?.rate ?? 0)}/s`],
      ["Sent", `${size(connection.send_oct)}, ${size(connection.send_oct_details?.rate ?? 0)}/s`],
      ["Largest frame", size(connection.frame_max)],
    ]} />
    <${Section} id="channels" title="Channels"><${Channels} name=${name} session=${session} /><//>
    <${Section} id="client" title="Client">
      ${Object.entries(connection.client_properties).map(([key, given]) => html`<div class="argument"><code>${key}</code> ${value(given)}</div>`)}
    <//>`;
  return html`<${ThingPage} address=${path`/connections/${name}`} name=${html`<code>${name}</code>`} title=${name} noun="connection" list=${CONNECTIONS} actions=${[CLOSE]} show=${show} />`;
}
