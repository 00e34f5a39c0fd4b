// @ts-check
/** The pages: those in the navigation, by groups, and the addresses of all others. */

import { isAdministrator } from "../lib/permission.js";
import { LISTS } from "./lists.js";
import { Grant, GrantTopic, PermissionTest, SetLimit } from "./access.js";
import { About, Definitions, LogPage } from "./administration.js";
import { ChannelPage } from "./channel.js";
import { ConnectionPage } from "./connection.js";
import { DeclareExchange } from "./declare_exchange.js";
import { DeclareQueue } from "./declare_queue.js";
import { ExchangePage } from "./exchange.js";
import { Overview } from "./overview.js";
import { AddPolicy, OperatorPolicyPage, PolicyPage } from "./policy.js";
import { QueuePage } from "./queue.js";
import { RouteTest } from "./route_test.js";
import { AddTemplate, Bind, StartTrace, TemplatePage } from "./rules.js";
import { Topology } from "./topology.js";
import { AddUser, UserPage } from "./user.js";
import { AddVhost, VhostPage } from "./vhost.js";

/** @typedef {{step: string, title: string, tabs?: {step: string}[], may?: (session: import("../lib/permission.js").Session) => boolean}} Link */

/** @param {...string} steps */
const lists = (...steps) => steps.map((step) => /** @type {Link} */ (LISTS.find((list) => list.step === step)));

/** @type {{title: string, links: Link[]}[]} */
export const NAVIGATION = [
  { title: "Messages", links: [{ step: "", title: "Overview" }, ...lists("queues", "streams", "exchanges", "bindings", "delayed", "leases", "tasks"), { step: "topology", title: "Topology" }, { step: "route-test", title: "Route tester" }] },
  { title: "Clients", links: lists("connections", "channels", "consumers") },
  { title: "Rules", links: lists("policies", "limits", "templates") },
  { title: "Administration", links: [
    ...lists("vhosts", "users", "permissions"),
    { step: "definitions", title: "Definitions", may: isAdministrator },
    ...lists("traces"),
    { step: "about", title: "Version" },
  ] },
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
  ["exchanges/{vhost}/{name}", ExchangePage],
  ["bind", Bind],
  ["connections/{name}", ConnectionPage],
  ["channels/{name}", ChannelPage],
  ["policies/{vhost}/{name}", PolicyPage],
  ["operator-policies/{vhost}/{name}", OperatorPolicyPage],
  ["add/user", AddUser],
  ["add/vhost", AddVhost],
  ["add/template", AddTemplate],
  ["add/{kind}", AddPolicy],
  ["users/{name}", UserPage],
  ["vhosts/{name}", VhostPage],
  ["templates/{name}", TemplatePage],
  ["grant", Grant],
  ["grant/topic", GrantTopic],
  ["set/limit", SetLimit],
  ["permission-test", PermissionTest],
  ["start/trace", StartTrace],
  ["definitions", Definitions],
  ["log", LogPage],
  ["about", About],
];
