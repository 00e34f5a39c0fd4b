// @ts-check
/** The form to declare an exchange. */

import { html, useEffect } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { ask, path, session as current } from "../lib/api.js";
import { vhostsToConfigure } from "../lib/permission.js";
import { hashOf } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";

const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random", "x-delayed-message"];
const DELAYED = "x-delayed-message";

export function DeclareExchange() {
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const vhosts = vhostsToConfigure(session);
  const [fields, change] = useFields({
    vhost: vhosts[0] ?? "", name: "", type: "direct", durable: true, auto_delete: false, internal: false, alternate: "", delayed: "direct",
  });
  useEffect(() => {
    document.title = "Declare an exchange – EmberMQ";
  }, []);
  async function declare() {
    const { vhost, name, type, durable, auto_delete, internal, alternate, delayed } = fields;
    const table = {
      ...(alternate ? { "alternate-exchange": alternate } : {}),
      ...(type === DELAYED ? { "x-delayed-type": delayed } : {}),
    };
    await ask("PUT", path`/exchanges/${vhost}/${name}`, { type, durable, auto_delete, internal, arguments: table });
    location.hash = hashOf(["exchanges"], { name });
  }
  return html`<h1>Declare an exchange</h1>
    <${Form} label="Declare an exchange" verb="Declare" submit=${declare}>
      <div class="fields">
        <${Field} label="Virtual host" name="vhost" choices=${vhosts} value=${fields.vhost} onInput=${change("vhost")} />
        <${Field} label="Name" name="name" value=${fields.name} onInput=${change("name")} isRequired />
        <${Field} label="Type" name="type" choices=${TYPES} value=${fields.type} onInput=${change("type")} />
        ${fields.type === DELAYED && html`<${Field} label="x-delayed-type" name="delayed" choices=${TYPES.slice(0, 4)} value=${fields.delayed} onInput=${change("delayed")} hint="routes as this type, after the delay" />`}
        <${Field} label="alternate-exchange" name="alternate" value=${fields.alternate} onInput=${change("alternate")} hint="where messages go that no binding takes" />
        <${Field} label="Durable" name="durable" type="flag" value=${fields.durable} onInput=${change("durable")} hint="stays when the broker restarts" />
        <${Field} label="Auto-delete" name="auto_delete" type="flag" value=${fields.auto_delete} onInput=${change("auto_delete")} hint="deleted with its last binding" />
        <${Field} label="Internal" name="internal" type="flag" value=${fields.internal} onInput=${change("internal")} hint="no client publishes to it, only other exchanges" />
      </div>
    <//>`;
}
