// @ts-check
/** Forms for a queue template, a trace and a binding. */

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { useVhosts } from "../component/vhosts.js";
import { ask, get, path, session as current } from "../lib/api.js";
import { argumentFields, argumentsOf, QUEUE_ARGUMENTS } from "../lib/argument.js";
import { hashOf } from "../lib/router.js";
import { useSignal } from "../lib/signal.js";
import { bind } from "../list/bindings.js";
import { FormPage } from "./form_page.js";

/** @param {{template?: any}} properties */
function TemplateForm({ template }) {
  const there = template?.arguments ?? {};
  const known = QUEUE_ARGUMENTS.map(({ name }) => name);
  const others = Object.fromEntries(Object.entries(there).filter(([name]) => !known.includes(name)));
  const fields = [
    { name: "name", label: "Name", isRequired: true, first: template?.name, isFixed: Boolean(template) },
    ...argumentFields(QUEUE_ARGUMENTS, there).map((field) => ({ ...field, group: "Arguments" })),
  ];
  const send = (/** @type {any} */ filled) => ask("PUT", path`/templates/${filled.name}`, { arguments: { ...others, ...argumentsOf(filled, QUEUE_ARGUMENTS) } });
  return html`<${FormPage} title=${template ? `Change the template ${template.name}` : "Add a template"} verb="Save" fields=${fields} send=${send} then=${() => "#/templates"}
    about="For queues to come; those that are there keep what they have." />`;
}

export const AddTemplate = () => html`<${TemplateForm} />`;

/** @param {{name: string}} properties */
export function TemplatePage({ name }) {
  const [template, setTemplate] = useState(/** @type {any} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    get(path`/templates/${name}`).then(setTemplate, (problem) => setError(problem.message));
  }, [name]);
  if (error) return html`<h1><code>${name}</code></h1><p class="alarm" role="alert">${error}</p>`;
  return template && html`<${TemplateForm} template=${template} />`;
}

export function StartTrace() {
  const vhosts = useVhosts(/** @type {any} */ (useSignal(current)));
  const fields = [
    { name: "vhost", label: "Virtual host", choices: vhosts, first: vhosts[0] },
    { name: "name", label: "Name", isRequired: true, hint: "of the file: letters, digits, - and _" },
    { name: "pattern", label: "Pattern", first: "#", isRequired: true, hint: "#: all; publish.EXCHANGE; deliver.QUEUE" },
    { name: "format", label: "Format", choices: ["text", "json"] },
    { name: "max_payload_bytes", label: "Bytes of a body", type: "number", hint: "all, where this is empty" },
  ];
  const send = (/** @type {any} */ { vhost, name, pattern, format, max_payload_bytes: most }) =>
    ask("PUT", path`/traces/${vhost}/${name}`, { pattern, format, ...(most ? { max_payload_bytes: Number(most) } : {}) });
  return html`<${FormPage} title="Start a trace" verb="Start" fields=${fields} send=${send} says=${{ name: "the name of a trace" }} then=${() => "#/traces"} />`;
}

/** @param {string} text */
function table(text) {
  if (!text.trim()) return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("arguments: this is no JSON object");
  }
}

export function Bind() {
  const vhosts = /** @type {any} */ (useSignal(current)).permissions.map((/** @type {any} */ { vhost }) => vhost);
  const fields = [
    { name: "vhost", label: "Virtual host", choices: vhosts, first: vhosts[0] },
    { name: "source", label: "From the exchange", isRequired: true },
    { name: "destination_type", label: "To", choices: ["queue", "exchange"] },
    { name: "destination", label: "Of this name", isRequired: true },
    { name: "routing_key", label: "Routing key" },
    { name: "arguments", label: "Arguments", hint: 'a JSON object, for a headers exchange: {"x-match": "all", "kind": "vip"}' },
  ];
  const send = (/** @type {any} */ filled) => bind({ ...filled, arguments: table(filled.arguments) });
  return html`<${FormPage} title="Bind" verb="Bind" fields=${fields} send=${send} then=${(/** @type {any} */ { vhost, source }) => hashOf(["exchanges", vhost, source])} done="Bound." />`;
}
