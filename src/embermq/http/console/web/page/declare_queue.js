// @ts-check
/** The form to declare a queue. */

import { html, useEffect } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { ask, path, session as current } from "../lib/api.js";
import { argumentsOf, QUEUE_ARGUMENTS } from "../lib/argument.js";
import { vhostsToConfigure } from "../lib/permission.js";
import { go, route } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";

const TYPES = ["classic", "quorum", "stream"];

export function DeclareQueue() {
  const session = /** @type {import("../lib/permission.js").Session} */ (useSignal(current));
  const vhosts = vhostsToConfigure(session);
  const [fields, change] = useFields({ vhost: vhosts[0] ?? "", name: "", type: TYPES.find((type) => type === route.get().query.type) ?? "classic", durable: true, auto_delete: false });
  useEffect(() => {
    document.title = "Declare a queue – EmberMQ";
  }, []);
  async function declare() {
    const { vhost, name, type, durable, auto_delete } = fields;
    const table = { ...argumentsOf(fields, QUEUE_ARGUMENTS), ...(type === "classic" ? {} : { "x-queue-type": type }) };
    await ask("PUT", path`/queues/${vhost}/${name}`, { durable, auto_delete, arguments: table });
    go("queues", vhost, name);
  }
  return html`<h1>Declare a queue</h1>
    <${Form} label="Declare a queue" verb="Declare" submit=${declare}>
      <div class="fields">
        <${Field} label="Virtual host" name="vhost" choices=${vhosts} value=${fields.vhost} onInput=${change("vhost")} />
        <${Field} label="Name" name="name" value=${fields.name} onInput=${change("name")} isRequired />
        <${Field} label="Type" name="type" choices=${TYPES} value=${fields.type} onInput=${change("type")} />
        <${Field} label="Durable" name="durable" type="flag" value=${fields.durable} onInput=${change("durable")} hint="stays when the broker restarts" />
        <${Field} label="Auto-delete" name="auto_delete" type="flag" value=${fields.auto_delete} onInput=${change("auto_delete")} hint="deleted with its last consumer" />
      </div>
      <h2>Arguments</h2>
      <div class="fields">
        ${QUEUE_ARGUMENTS.map(
          ({ name, type, unit, hint, choices }) =>
            html`<${Field} key=${name} label=${name} name=${name} unit=${unit} hint=${hint} type=${type === "choice" ? "text" : type}
              choices=${choices && ["", ...choices]} value=${fields[name] ?? ""} onInput=${change(name)} />`,
        )}
      </div>
    <//>`;
}
