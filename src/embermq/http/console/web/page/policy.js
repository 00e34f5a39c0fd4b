// @ts-check
/** A policy or an operator policy: the form to add one, and to change one that is there. */

import { html } from "../vendor/preact-htm.js";
import { ThingPage } from "../component/thing.js";
import { useVhosts } from "../component/vhosts.js";
import { path, session as current } from "../lib/api.js";
import { argumentFields, argumentsOf, POLICY_KEYS } from "../lib/argument.js";
import { inVhost } from "../component/cell.js";
import { deletePolicy, KINDS, OPERATOR_POLICIES, POLICIES, putPolicy } from "../list/policies.js";
import { useSignal } from "../lib/signal.js";
import { FormPage } from "./form_page.js";

/** @typedef {"policies" | "operator-policies"} Kind */

const SAYS = { ...Object.fromEntries(POLICY_KEYS.map(({ name, says }) => [name, says])), pattern: "pattern" };
const APPLIES = {
  policies: ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"],
  "operator-policies": ["queues", "classic_queues", "quorum_queues", "streams"],
};

/** What the form does not know stays as it is. @param {Record<string, any>} definition @param {Kind} kind */
function unknownIn(definition, kind) {
  const known = keysOf(kind).map(({ name }) => name);
  return Object.fromEntries(Object.entries(definition).filter(([name]) => !known.includes(name)));
}

/** @param {Kind} kind */
const keysOf = (kind) => POLICY_KEYS.filter(({ isForOperators }) => kind === "policies" || isForOperators);

/** @param {{kind: Kind, vhosts: string[], policy?: any}} properties */
function PolicyForm({ kind, vhosts, policy }) {
  const definition = policy?.definition ?? {};
  const { noun, add } = KINDS[kind];
  const fields = [
    { name: "vhost", label: "Virtual host", choices: vhosts, first: policy?.vhost ?? vhosts[0], isFixed: Boolean(policy) },
    { name: "name", label: "Name", isRequired: true, first: policy?.name, isFixed: Boolean(policy) },
    { name: "pattern", label: "Pattern", first: policy?.pattern, isRequired: true, hint: "a regular expression, found anywhere in the name of a queue or exchange" },
    { name: "apply-to", label: "Applies to", choices: APPLIES[kind], first: policy?.["apply-to"] },
    { name: "priority", label: "Priority", type: "number", first: policy?.priority ?? 0, hint: "of several policies that match, the one with the highest holds" },
    ...argumentFields(keysOf(kind), definition).map((field) => ({ ...field, group: "Definition" })),
  ];
  const send = (/** @type {any} */ filled) =>
    putPolicy(kind, { ...filled, priority: Number(filled.priority), definition: { ...unknownIn(definition, kind), ...argumentsOf(filled, keysOf(kind)) } });
  const title = policy ? `Change the ${noun}` : add;
  return html`<${FormPage} title=${title} verb=${policy ? "Save" : "Add"} fields=${fields} send=${send} says=${SAYS} then=${() => `#/${kind}`} />`;
}

/** @param {{kind: string}} properties */
export function AddPolicy({ kind }) {
  const session = /** @type {any} */ (useSignal(current));
  return html`<${PolicyForm} kind=${kind} vhosts=${useVhosts(session)} />`;
}

/** @param {Kind} kind */
const pageOf = (kind) =>
  /** @param {{vhost: string, name: string}} properties */
  function Page({ vhost, name }) {
    const remove = {
      verb: "Delete",
      may: () => true,
      names: inVhost,
      loss: () => "Queues and exchanges under it lose its definition at once: limits, dead lettering, expiry.",
      act: (/** @type {any} */ policy) => deletePolicy(kind, policy),
    };
    const show = (/** @type {any} */ policy) => html`<${PolicyForm} key=${name} kind=${kind} vhosts=${[vhost]} policy=${policy} />`;
    const list = kind === "policies" ? POLICIES : OPERATOR_POLICIES;
    return html`<${ThingPage} address=${`/${kind}` + path`/${vhost}/${name}`} name=${html`<code>${name}</code>`} title=${name} noun=${KINDS[kind].noun} list=${list} actions=${[remove]} show=${show} />`;
  };

export const PolicyPage = pageOf("policies");
export const OperatorPolicyPage = pageOf("operator-policies");
