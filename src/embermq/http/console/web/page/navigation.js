// @ts-check
/** The pages: those in the navigation, by groups, and the addresses of all others. */

import { LISTS } from "./lists.js";
import { DeclareExchange } from "./declare_exchange.js";
import { DeclareQueue } from "./declare_queue.js";
import { Overview } from "./overview.js";
import { QueuePage } from "./queue.js";
import { RouteTest } from "./route_test.js";
import { Topology } from "./topology.js";

/** @typedef {{step: string, title: string, tabs?: {step: string}[], may?: (session: import("../lib/permission.js").Session) => boolean}} Link */

/** @param {...string} steps */
const lists = (...steps) => steps.map((step) => /** @type {Link} */ (LISTS.find((list) => list.step === step)));

/** @type {{title: string, links: Link[]}[]} */
export const NAVIGATION = [
  { title: "Messages", links: [{ step: "", title: "Overview" }, ...lists("queues", "streams", "exchanges", "bindings", "delayed", "leases", "tasks"), { step: "topology", title: "Topology" }, { step: "route-test", title: "Route tester" }] },
  { title: "Clients", links: lists("connections", "channels", "consumers") },
  { title: "Rules", links: lists("policies", "limits", "templates") },
  { title: "Administration", links: lists("vhosts", "users", "permissions", "traces") },
];

/** Addresses and what is shown there; a name in braces is given to the page. @type {[string, any][]} */
export const PAGES = [
  ["", Overview],
  ["queues/{vhost}/{name}", QueuePage],
  ["topology", Topology],
  ["topology/{vhost}", Topology],
  ["route-test", RouteTest],
  ["route-test/{vhost}", RouteTest],
  ["declare/queue", DeclareQueue],
  ["declare/exchange", DeclareExchange],
];
