// @ts-check
/** The list of queue templates. */

import { html } from "../vendor/preact-htm.js";
import { details, named, yes } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { isAdministrator } from "../lib/permission.js";
import { hashOf } from "../lib/router.js";

/** @param {any} template */
export async function deleteTemplate(template) {
  await ask("DELETE", path`/templates/${template.name}`);
  return () => ask("PUT", path`/templates/${template.name}`, { arguments: template.arguments });
}

/** @param {import("../lib/permission.js").Session} session @param {any} template */
const mayChange = (session, template) => isAdministrator(session) && !template.configured;

/** @type {import("../page/list.js").List} */
export const TEMPLATES = {
  step: "templates",
  title: "Templates",
  noun: "template",
  path: "/templates",
  about: "Arguments under a name, which a declaration refers to with x-template. Queues keep what they were declared with.",
  keyOf: ({ name }) => name,
  create: { label: "Add a template", href: "#/add/template", may: isAdministrator },
  columns: [
    {
      label: "Name",
      sort: "name",
      cell: (template, session) => (mayChange(session, template) ? html`<a href=${hashOf(["templates", template.name])}>${named(template.name)}</a>` : named(template.name)),
    },
    { label: "Arguments", cell: (template) => details(template.arguments) },
    { label: "In the configuration", sort: "configured", cell: (template) => yes(template.configured) },
  ],
  actions: [
    {
      verb: "Delete",
      may: mayChange,
      names: ({ name }) => named(name),
      loss: () => "Declarations that refer to them will be refused. Queues that are there keep what they have.",
      act: deleteTemplate,
    },
  ],
};
