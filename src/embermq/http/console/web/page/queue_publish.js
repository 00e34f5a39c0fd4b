// @ts-check
/** Publish a message to a queue, through the default exchange: with every property, and more than once. */

import { html, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { ask, path } from "../lib/api.js";
import { counted } from "../lib/format.js";
import { tableOf } from "../lib/message.js";

const REPEAT_MAX = 1000;
const EXAMPLE = '{"priority": 5, "expiration": "60000", "message_id": "a1", "correlation_id": "...", "reply_to": "...", "type": "order", "app_id": "shop", "timestamp": 1700000000}';

/** @param {{vhost: string, name: string}} properties */
export function Publish({ vhost, name }) {
  const [fields, change] = useFields({ payload: "", content_type: "", headers: "", properties: "", persistent: true, repeat: "1" });
  const [told, setTold] = useState("");
  async function publish() {
    setTold("");
    const { payload, content_type, persistent } = fields;
    const properties = {
      delivery_mode: persistent ? 2 : 1,
      ...(content_type ? { content_type } : {}),
      ...tableOf("properties", fields.properties),
      headers: tableOf("headers", fields.headers),
    };
    const count = Math.min(Math.max(1, Number(fields.repeat) || 1), REPEAT_MAX);
    for (let at = 1; at <= count; at += 1) {
      const answer = await ask("POST", path`/exchanges/${vhost}/${"amq.default"}/publish`, { routing_key: name, payload, payload_encoding: "string", properties });
      if (!answer.routed) throw new Error("The message was not routed.");
      if (count > 1) setTold(`${counted(at, "message")} published.`);
    }
    if (count === 1) setTold("Published.");
  }
  return html`<section aria-labelledby="publish"><h2 id="publish">Publish</h2>
    <${Form} label="Publish a message" verb="Publish" submit=${publish}>
      <${Field} label="Body" name="payload" rows=${4} value=${fields.payload} onInput=${change("payload")} />
      <div class="fields">
        <${Field} label="Content type" name="content_type" value=${fields.content_type} onInput=${change("content_type")} hint="application/json" />
        <${Field} label="Headers" name="headers" value=${fields.headers} onInput=${change("headers")} hint=${'a JSON object: {"tries": 1}'} />
        <${Field} label="Properties" name="properties" value=${fields.properties} onInput=${change("properties")} hint=${`a JSON object, for example ${EXAMPLE}`} />
        <${Field} label="Times" name="repeat" type="number" value=${fields.repeat} onInput=${change("repeat")} hint=${`the same message so often, ${REPEAT_MAX} at most`} />
        <${Field} label="Persistent" name="persistent" type="flag" value=${fields.persistent} onInput=${change("persistent")} />
      </div>
    <//>
    ${told && html`<p role="status">${told}</p>`}
  </section>`;
}
