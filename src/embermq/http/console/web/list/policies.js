// @ts-check
/** The lists of policies and of operator policies. */

import { details, inVhost, keyInVhost, named, policyLink, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { number } from "../lib/format.js";
import { isAdministrator, makesPolicies, mayEnter } from "../lib/permission.js";

const TABS = [
  { step: "policies", title: "Of users" },
  { step: "operator-policies", title: "Of operators" },
];
export const KINDS = {
  policies: { title: "Policies", noun: "policy", add: "Add a policy" },
  "operator-policies": { title: "Operator policies", noun: "operator policy", add: "Add an operator policy" },
};

/** @param {"policies" | "operator-policies"} kind @param {any} policy */
export function putPolicy(kind, { vhost, name, pattern, definition, priority, "apply-to": applies }) {
  return ask("PUT", `/${kind}` + path`/${vhost}/${name}`, { pattern, definition, priority, "apply-to": applies });
}

/** @param {"policies" | "operator-policies"} kind @param {any} policy */
export async function deletePolicy(kind, policy) {
  await ask("DELETE", `/${kind}` + path`/${policy.vhost}/${policy.name}`);
  return () => putPolicy(kind, policy);
}

/** @param {"policies" | "operator-policies"} kind @returns {import("../page/list.js").List} */
function listOf(kind) {
  const mayChange = kind === "policies" ? makesPolicies : isAdministrator;
  return {
    step: kind,
    title: KINDS[kind].title,
    noun: KINDS[kind].noun,
    path: `/${kind}`,
    inVhost: (vhost) => `/${kind}` + path`/${vhost}`,
    tabs: TABS,
    about: kind === "policies" ? undefined : "They bound what policies and declarations say: of two limits the lower one holds.",
    keyOf: keyInVhost,
    create: { label: KINDS[kind].add, href: `#/add/${kind}`, may: mayChange },
    columns: [
      { label: "Name", sort: "name", cell: (policy, session) => policyLink(kind, policy.vhost, policy.name, session) },
      VHOST,
      { label: "Pattern", sort: "pattern", cell: (policy) => named(policy.pattern) },
      { label: "Applies to", sort: "apply-to", cell: (policy) => policy["apply-to"] },
      { label: "Definition", cell: (policy) => details(policy.definition) },
      { label: "Priority", sort: "priority", isNumber: true, cell: (policy) => number(policy.priority) },
    ],
    actions: [
      {
        verb: "Delete",
        may: (session, policy) => mayChange(session) && (isAdministrator(session) || mayEnter(session, policy.vhost)),
        names: inVhost,
        loss: () => "Queues and exchanges under these policies lose their definitions at once: limits, dead lettering, expiry.",
        act: (policy) => deletePolicy(kind, policy),
      },
    ],
  };
}

export const POLICIES = listOf("policies");
export const OPERATOR_POLICIES = listOf("operator-policies");
