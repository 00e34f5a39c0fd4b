// @ts-check
/** The list of tasks: messages moved, copied, deleted or returned in the background. */

import { html } from "../vendor/preact-htm.js";
import { queueLink, userLink, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { number, time } from "../lib/format.js";
import { isAdministrator } from "../lib/permission.js";

/** @param {any} task */
function Progress({ id, scanned, total, state }) {
  if (state !== "running") return html`${state}`;
  return html`<progress aria-label=${`Progress of task ${id}`} max=${Math.max(total, 1)} value=${scanned}></progress> <small>${number(scanned)} of ${number(total)}</small>`;
}

/** @type {import("../page/list.js").List} */
export const TASKS = {
  step: "tasks",
  title: "Tasks",
  noun: "task",
  path: "/tasks",
  everyMs: 1000,
  searches: "part of a queue's name",
  about: "What moves, copies, deletes and returns messages in the background. The last ones that ended stay here for a while.",
  keyOf: ({ id }) => id,
  columns: [
    { label: "Task", sort: "kind", cell: ({ id, kind }) => html`${kind} <small>${id}</small>` },
    { label: "From", sort: "source", cell: ({ vhost, source }, session) => queueLink(vhost, source, session) },
    { label: "To", sort: "destination", cell: (task, session) => task.destination && queueLink(task.destination_vhost, task.destination, session) },
    VHOST,
    { label: "State", sort: "state", cell: (task) => html`${Progress(task)}${task.reason && html` <small>${task.reason}</small>`}` },
    { label: "Done", sort: "done", isNumber: true, cell: ({ done }) => number(done) },
    { label: "Skipped", sort: "skipped", isNumber: true, isExtra: true, cell: ({ skipped }) => number(skipped) },
    { label: "User", sort: "user", cell: ({ user }, session) => userLink(user, session) },
    { label: "Began", sort: "started_at", cell: ({ started_at }) => time(started_at) },
    { label: "Ended", sort: "ended_at", isExtra: true, cell: ({ ended_at }) => ended_at && time(ended_at) },
  ],
  actions: [
    {
      verb: "Cancel",
      may: (session, task) => task.state === "running" && (isAdministrator(session) || task.user === session.name),
      names: ({ kind, source, id }) => html`${kind} from <code>${source}</code> <small>${id}</small>`,
      loss: () => "What they have done stays done.",
      act: ({ id }) => ask("DELETE", path`/tasks/${id}`),
    },
  ],
};
