// @ts-check
/** A user: tags, a new password, permissions, limits; and the form to add one. */

import { html } from "../vendor/preact-htm.js";
import { exchangeLink, named, vhostLink } from "../component/cell.js";
import { Field, Form, useFields } from "../component/form.js";
import { Table } from "../component/table.js";
import { Facts, Section, ThingPage } from "../component/thing.js";
import { ask, path } from "../lib/api.js";
import { tell } from "../lib/notice.js";
import { usePolled } from "../lib/poll.js";
import { hashOf } from "../lib/router.js";
import { RIGHTS } from "../list/permissions.js";
import { deleteUser, USERS } from "../list/users.js";
import { FormPage } from "./form_page.js";

const TAGS = "management, policymaker, monitoring or administrator; several with commas; none: no use of this console";

/** @param {string} tags */
const tagList = (tags) => tags.split(",").map((tag) => tag.trim()).filter(Boolean);

export function AddUser() {
  const fields = [
    { name: "name", label: "Name", isRequired: true },
    { name: "password", label: "Password", type: "password", autocomplete: "new-password", hint: "empty: no login with a password" },
    { name: "tags", label: "Tags", hint: TAGS },
  ];
  const send = (/** @type {any} */ { name, password, tags }) =>
    ask("PUT", path`/users/${name}`, { tags: tagList(tags), ...(password ? { password } : { password_hash: "" }) });
  return html`<${FormPage} title="Add a user" verb="Add" fields=${fields} send=${send} then=${(/** @type {any} */ { name }) => hashOf(["users", name])} />`;
}

/** @param {{user: any, reload: () => void}} properties */
function Change({ user, reload }) {
  const [fields, change] = useFields({ tags: user.tags.join(", "), password: "" });
  async function save() {
    const { password_hash, hashing_algorithm } = user;
    const secret = fields.password ? { password: fields.password } : { password_hash, hashing_algorithm };
    await ask("PUT", path`/users/${user.name}`, { tags: tagList(fields.tags), ...secret });
    change("password")("");
    tell("The user is changed.");
    reload();
  }
  return html`<${Form} label="Change the user" verb="Save" submit=${save}>
    <div class="fields">
      <${Field} label="Tags" name="tags" value=${fields.tags} onInput=${change("tags")} hint=${TAGS} />
      <${Field} label="New password" name="password" type="password" autocomplete="new-password" value=${fields.password} onInput=${change("password")} hint="empty: it stays as it is" />
    </div>
  <//>`;
}

/** @param {{name: string, session: any}} properties */
function Permissions({ name, session }) {
  const { data } = usePolled(path`/users/${name}/permissions`);
  const { data: topics } = usePolled(path`/users/${name}/topic-permissions`);
  const edit = (/** @type {any} */ { vhost, configure, write, read }) => html`<a href=${hashOf(["grant"], { user: name, vhost, configure, write, read })}>Change</a>`;
  const vhost = { label: "Virtual host", cell: (/** @type {any} */ item) => vhostLink(item.vhost, session) };
  return html`<p><a class="button" href=${hashOf(["grant"], { user: name })}>Give permissions</a> <a class="button" href=${hashOf(["permission-test"], { user: name })}>Test</a></p>
    <${Table} label="Permissions" items=${data ?? []} columns=${[vhost, ...RIGHTS, { label: "", cell: edit }]} session=${session} keyOf=${(/** @type {any} */ item) => item.vhost} nothing="None: this user may enter no virtual host." />
    <h3>At topic exchanges</h3>
    <${Table} label="Topic permissions" items=${topics ?? []} columns=${[vhost, { label: "Exchange", cell: (/** @type {any} */ item) => exchangeLink(item.vhost, item.exchange, session) }, ...RIGHTS.slice(1)]}
      session=${session} keyOf=${(/** @type {any} */ item) => JSON.stringify([item.vhost, item.exchange])} nothing="None: every routing key." />`;
}

/** @param {{name: string}} properties */
export function UserPage({ name }) {
  const remove = {
    verb: "Delete",
    may: (/** @type {any} */ session) => session.name !== name,
    names: (/** @type {any} */ user) => named(user.name),
    loss: () => "The permissions are lost, and the connections of this user are closed.",
    act: deleteUser,
  };
  const show = (/** @type {any} */ user, /** @type {any} */ session, /** @type {() => void} */ reload) => html`
    <${Facts} facts=${[
      ["Tags", user.tags.join(", ") || "none"],
      ["Password", user.password_hash ? "set" : "none"],
      ...Object.entries(user.limits),
    ]} />
    <${Section} id="permissions" title="Permissions"><${Permissions} name=${name} session=${session} /><//>
    <${Section} id="change" title="Change"><${Change} user=${user} reload=${reload} />
      <p><a href=${hashOf(["set", "limit"], { of: "user", user: name })}>Set a limit</a></p><//>`;
  return html`<${ThingPage} address=${path`/users/${name}`} name=${html`<code>${name}</code>`} title=${name} noun="user" list=${USERS} actions=${[remove]} show=${show} />`;
}
