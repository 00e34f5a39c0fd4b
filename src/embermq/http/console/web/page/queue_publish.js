// @ts-check
/** Publish a message to a queue, through the default exchange. */

import { html, useState } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { ask, path } from "../lib/api.js";

/** @param {Record<string, any>} fields */
function propertiesOf({ content_type, headers, persistent }) {
  let table = {};
  if (headers.trim()) {
    try {
      table = JSON.parse(headers);
    } catch {
      throw new Error("The headers are no JSON object.");
    }
  }
  return { delivery_mode: persistent ? 2 : 1, headers: table, ...(content_type ? { content_type } : {}) };
}

/** @param {{vhost: string, name: string}} properties */
export function Publish({ vhost, name }) {
  const [fields, change] = useFields({ payload: "", content_type: "", headers: "", persistent: true });
  const [told, setTold] = useState("");
  async function publish() {
    setTold("");
    const answer = await ask("POST", path`/exchanges/${vhost}/${"amq.default"}/publish`, {
      routing_key: name,
      payload: fields.payload,
      payload_encoding: "string",
      properties: propertiesOf(fields),
    });
    setTold(answer.routed ? "Published." : "The message was not routed.");
  }
  return html`<section aria-labelledby="publish"><h2 id="publish">Publish</h2>
    <${Form} label="Publish a message" verb="Publish" submit=${publish}>
      <${Field} label="Body" name="payload" rows=${4} value=${fields.payload} onInput=${change("payload")} />
      <div class="fields">
        <${Field} label="Content type" name="content_type" value=${fields.content_type} onInput=${change("content_type")} hint="application/json" />
        <${Field} label="Headers" name="headers" value=${fields.headers} onInput=${change("headers")} hint=${'a JSON object: {"tries": 1}'} />
        <${Field} label="Persistent" name="persistent" type="flag" value=${fields.persistent} onInput=${change("persistent")} />
      </div>
    <//>
    ${told && html`<p role="status">${told}</p>`}
  </section>`;
}
