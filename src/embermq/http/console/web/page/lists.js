// @ts-check
/** The lists, one for each kind of thing that the API has. */

import { BINDINGS } from "../list/bindings.js";
import { CHANNELS } from "../list/channels.js";
import { CONNECTIONS } from "../list/connections.js";
import { CONSUMERS } from "../list/consumers.js";
import { DELAYED } from "../list/delayed.js";
import { EXCHANGES } from "../list/exchanges.js";
import { LEASES } from "../list/leases.js";
import { USER_LIMITS, VHOST_LIMITS } from "../list/limits.js";
import { PERMISSIONS, TOPIC_PERMISSIONS } from "../list/permissions.js";
import { OPERATOR_POLICIES, POLICIES } from "../list/policies.js";
import { QUEUES } from "../list/queues.js";
import { STREAMS } from "../list/streams.js";
import { TASKS } from "../list/tasks.js";
import { TEMPLATES } from "../list/templates.js";
import { TRACE_FILES, TRACES } from "../list/traces.js";
import { USERS } from "../list/users.js";
import { VHOSTS } from "../list/vhosts.js";

/** @type {import("./list.js").List[]} */
export const LISTS = [
  QUEUES, STREAMS, EXCHANGES, BINDINGS, DELAYED, LEASES, TASKS, CONNECTIONS, CHANNELS, CONSUMERS, POLICIES, OPERATOR_POLICIES,
  VHOST_LIMITS, USER_LIMITS, TEMPLATES, VHOSTS, USERS, PERMISSIONS, TOPIC_PERMISSIONS, TRACES, TRACE_FILES,
];
