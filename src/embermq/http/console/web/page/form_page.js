// @ts-check
/** A page that is a form: its fields by a table, filled from the address, sent in one request. */

import { html, useEffect } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { tell } from "../lib/notice.js";
import { route } from "../lib/router.js";

/**
 * @typedef {{name: string, label: string, type?: string, unit?: string, hint?: any, choices?: string[], isRequired?: boolean,
 *   first?: any, rows?: number, suggestions?: string[], autocomplete?: string, isFixed?: boolean, group?: string}} FormField
 *   `first`: before anything is typed; `group`: a heading before it
 */

/**
 * @param {{title: string, verb: string, about?: any, fields: FormField[], send: (fields: Record<string, any>) => Promise<any>,
 *   then: (fields: Record<string, any>) => string, says?: Record<string, string>, done?: string}} properties `then`: the address to go to
 */
export function FormPage({ title, verb, about, fields, send, then, says, done }) {
  const { query } = route.get();
  const [filled, change] = useFields(
    Object.fromEntries(fields.map(({ name, type, first, choices }) => [name, query[name] ?? first ?? (type === "flag" ? false : (choices?.[0] ?? ""))])),
  );
  useEffect(() => {
    document.title = `${title} – EmberMQ`;
  }, [title]);
  async function submit() {
    await send(filled);
    tell(done ?? `${title}: done.`);
    location.hash = then(filled);
  }
  const groups = [...new Set(fields.map(({ group }) => group ?? ""))];
  return html`<h1>${title}</h1>
    ${about && html`<p class="about">${about}</p>`}
    <${Form} label=${title} verb=${verb} submit=${submit} says=${says}>
      ${groups.map(
        (group) => html`${group && html`<h2>${group}</h2>`}
          <div class="fields">
            ${fields
              .filter((field) => (field.group ?? "") === group)
              .map(({ name, first, group: _, ...field }) => html`<${Field} key=${name} name=${name} ...${field} value=${filled[name]} onInput=${change(name)} />`)}
          </div>`,
      )}
    <//>`;
}
