// @ts-check
/** Forms about access: permissions, topic permissions, limits, and the test of what a user may do. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { useVhosts } from "../component/vhosts.js";
import { ask, get, path, session as current } from "../lib/api.js";
import { hashOf, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { setLimit } from "../list/limits.js";
import { PERMISSIONS } from "../list/permissions.js";
import { FormPage } from "./form_page.js";
import { Tabs } from "./list.js";

const PATTERN = "a regular expression, found anywhere in a name; empty: nothing";
const USER = { name: "user", label: "User", isRequired: true };

/** The field for a virtual host. */
function useVhostField() {
  const vhosts = useVhosts(/** @type {any} */ (useSignal(current)));
  return { name: "vhost", label: "Virtual host", choices: vhosts, first: vhosts[0] };
}

export function Grant() {
  const fields = [
    USER,
    useVhostField(),
    { name: "configure", label: "Configure", first: ".*", hint: `declare and delete; ${PATTERN}` },
    { name: "write", label: "Write", first: ".*", hint: `publish, and bind a queue; ${PATTERN}` },
    { name: "read", label: "Read", first: ".*", hint: `consume, purge, and bind to an exchange; ${PATTERN}` },
  ];
  const send = (/** @type {any} */ { user, vhost, configure, write, read }) => ask("PUT", path`/permissions/${vhost}/${user}`, { configure, write, read });
  return html`<${FormPage} title="Give permissions" verb="Give" fields=${fields} send=${send} says=${{ user: "vhost_or_user_not_found" }} then=${(/** @type {any} */ { user }) => hashOf(["users", user])} />`;
}

export function GrantTopic() {
  const fields = [
    USER,
    useVhostField(),
    { name: "exchange", label: "Exchange", first: "amq.topic", isRequired: true, hint: "a topic exchange" },
    { name: "write", label: "Write", first: ".*", hint: "routing keys to publish with; {username} and {vhost} stand for those of the connection" },
    { name: "read", label: "Read", first: ".*", hint: "routing keys to bind with" },
  ];
  const send = (/** @type {any} */ { user, vhost, exchange, write, read }) => ask("PUT", path`/topic-permissions/${vhost}/${user}`, { exchange, write, read });
  return html`<${FormPage} title="Restrict topics" verb="Restrict" fields=${fields} send=${send} says=${{ user: "vhost_or_user_not_found" }} then=${() => "#/topic-permissions"} />`;
}

export function SetLimit() {
  const isUser = route.get().query.of === "user";
  const vhost = useVhostField();
  const names = isUser ? ["max-connections", "max-channels"] : ["max-connections", "max-queues"];
  const fields = [
    isUser ? USER : vhost,
    { name: "name", label: "Limit", choices: names },
    { name: "limit", label: "Value", type: "number", isRequired: true, hint: "0: none at all; -1: any number" },
  ];
  const send = (/** @type {any} */ filled) => setLimit({ ...filled, limit: Number(filled.limit) });
  return html`<${FormPage} title="Set a limit" verb="Set" fields=${fields} send=${send} says=${{ user: "no_such_user", limit: "should be a number" }} then=${() => (isUser ? "#/user-limits" : "#/limits")} />`;
}

export function PermissionTest() {
  const session = /** @type {any} */ (useSignal(current));
  const vhosts = useVhosts(session);
  const { query } = route.get();
  const [fields, change] = useFields({ user: query.user ?? "", vhost: query.vhost ?? vhosts[0] ?? "", right: "write", name: "", routing_key: "" });
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  useEffect(() => {
    document.title = "Test permissions – EmberMQ";
  }, []);
  async function test() {
    const { user, vhost, right, name, routing_key } = fields;
    const asked = new URLSearchParams({ right, name, ...(routing_key ? { routing_key } : {}) });
    setAnswer(null);
    setAnswer(await get(path`/permissions/${vhost}/${user}/test` + `?${asked}`));
  }
  return html`<h1>Test permissions</h1>
    <${Tabs} tabs=${PERMISSIONS.tabs} current="permission-test" session=${session} />
    <p class="about">May this user do that? The answer names the pattern that decides.</p>
    <${Form} label="Test permissions" verb="Test" submit=${test} says=${{ user: "Not Found" }}>
      <div class="fields">
        <${Field} label="User" name="user" isRequired value=${fields.user} onInput=${change("user")} />
        <${Field} label="Virtual host" name="vhost" choices=${vhosts} value=${fields.vhost} onInput=${change("vhost")} />
        <${Field} label="Right" name="right" choices=${["configure", "write", "read"]} value=${fields.right} onInput=${change("right")} />
        <${Field} label="Exchange or queue" name="name" value=${fields.name} onInput=${change("name")} hint="empty: the default exchange" />
        <${Field} label="Routing key" name="routing_key" value=${fields.routing_key} onInput=${change("routing_key")} hint="for a topic exchange" />
      </div>
    <//>
    ${answer && html`<p role="status" class=${answer.allowed ? "allowed" : "alarm"}><strong>${answer.allowed ? "Yes" : "No"}:</strong> ${answer.reason}.</p>`}`;
}
