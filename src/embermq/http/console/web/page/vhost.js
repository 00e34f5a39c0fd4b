// @ts-check
/** A virtual host: numbers, description, protection, permissions, definitions; and the form to add one. */

import { html } from "../vendor/preact-htm.js";
import { rate, userLink, yes } from "../component/cell.js";
import { Field, Form, useFields } from "../component/form.js";
import { Table } from "../component/table.js";
import { Facts, Section, ThingPage } from "../component/thing.js";
import { ask, path } from "../lib/api.js";
import { number } from "../lib/format.js";
import { tell } from "../lib/notice.js";
import { usePolled } from "../lib/poll.js";
import { hashOf } from "../lib/router.js";
import { RIGHTS } from "../list/permissions.js";
import { DELETE_VHOST, VHOSTS } from "../list/vhosts.js";
import { FormPage } from "./form_page.js";

const TYPES = ["classic", "quorum", "stream"];
const ABOUT = [
  { name: "description", label: "Description" },
  { name: "tags", label: "Tags", hint: "with commas between" },
  { name: "default_queue_type", label: "Type of new queues", choices: TYPES, hint: "where a declaration says nothing" },
  { name: "protected_from_deletion", label: "Protected from deletion", type: "flag" },
  { name: "tracing", label: "Tracing", type: "flag", hint: "messages are copied to amq.rabbitmq.trace, which costs time" },
];

/** @param {string} name @param {Record<string, any>} fields */
const putVhost = (name, { description, tags, default_queue_type, protected_from_deletion, tracing }) =>
  ask("PUT", path`/vhosts/${name}`, { description, tags, default_queue_type, protected_from_deletion, tracing });

export function AddVhost() {
  const send = (/** @type {any} */ fields) => putVhost(fields.name, fields);
  return html`<${FormPage} title="Add a virtual host" verb="Add" fields=${[{ name: "name", label: "Name", isRequired: true }, ...ABOUT]} send=${send}
    then=${(/** @type {any} */ { name }) => hashOf(["vhosts", name])} done="The virtual host is there. You have all permissions in it after the next sign-in." />`;
}

/** @param {{vhost: any, reload: () => void}} properties */
function Change({ vhost, reload }) {
  const [fields, change] = useFields({ ...vhost, tags: vhost.tags.join(", ") });
  async function save() {
    await putVhost(vhost.name, fields);
    tell("The virtual host is changed.");
    reload();
  }
  return html`<${Form} label="Change the virtual host" verb="Save" submit=${save}>
    <div class="fields">${ABOUT.map((field) => html`<${Field} key=${field.name} ...${field} value=${fields[field.name]} onInput=${change(field.name)} />`)}</div>
  <//>`;
}

/** @param {{name: string, session: any}} properties */
function Permissions({ name, session }) {
  const { data } = usePolled(path`/vhosts/${name}/permissions`);
  const user = { label: "User", cell: (/** @type {any} */ item) => userLink(item.user, session) };
  return html`<p><a class="button" href=${hashOf(["grant"], { vhost: name })}>Give permissions</a></p>
    <${Table} label="Permissions" items=${data ?? []} columns=${[user, ...RIGHTS]} session=${session} keyOf=${(/** @type {any} */ item) => item.user} nothing="None: no user may enter." />`;
}

/** @param {{name: string}} properties */
function Limits({ name }) {
  const { data } = usePolled(path`/vhost-limits/${name}`);
  return html`<${Facts} facts=${Object.entries(data?.[0]?.value ?? {})} />
    <p><a href=${hashOf(["set", "limit"], { of: "vhost", vhost: name })}>Set a limit</a></p>`;
}

/** @param {{name: string}} properties */
export function VhostPage({ name }) {
  const show = (/** @type {any} */ vhost, /** @type {any} */ session, /** @type {() => void} */ reload) => html`
    <${Facts} facts=${[
      ["Ready", number(vhost.messages_ready)],
      ["Unacked", number(vhost.messages_unacknowledged)],
      ["Delayed", vhost.messages_delayed > 0 && number(vhost.messages_delayed)],
      ["In", `${rate(vhost.message_stats?.publish_details)}/s`],
      ["Out", `${rate(vhost.message_stats?.deliver_get_details)}/s`],
      ["Protected", yes(vhost.protected_from_deletion)],
    ]} />
    <p><a href=${hashOf(["queues"], { vhost: name })}>Queues</a>, <a href=${hashOf(["exchanges"], { vhost: name })}>exchanges</a>,
      ${" "}<a href=${hashOf(["bindings"], { vhost: name })}>bindings</a>, <a href=${hashOf(["connections"], { vhost: name })}>connections</a>,
      ${" "}<a href=${hashOf(["policies"], { vhost: name })}>policies</a></p>
    <${Section} id="permissions" title="Permissions"><${Permissions} name=${name} session=${session} /><//>
    <${Section} id="limits" title="Limits"><${Limits} name=${name} /><//>
    <${Section} id="change" title="Change"><${Change} vhost=${vhost} reload=${reload} /><//>`;
  return html`<${ThingPage} address=${path`/vhosts/${name}`} name=${html`<code>${name}</code>`} title=${name} noun="virtual host" list=${VHOSTS} actions=${[DELETE_VHOST]} show=${show} />`;
}
