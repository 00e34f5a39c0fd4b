// @ts-check
/** The lists of traces that run and of the files that they wrote. */

import { html } from "../vendor/preact-htm.js";
import { named, VHOST } from "../component/cell.js";
import { ask, path } from "../lib/api.js";
import { number, size } from "../lib/format.js";
import { isAdministrator } from "../lib/permission.js";

const TABS = [
  { step: "traces", title: "Running" },
  { step: "trace-files", title: "Files" },
  { step: "log", title: "Log of the broker" },
];

/** @type {import("../page/list.js").List} */
export const TRACES = {
  step: "traces",
  title: "Traces",
  noun: "trace",
  path: "/traces",
  isWhole: true,
  tabs: TABS,
  may: isAdministrator,
  about: "A trace writes what is published and delivered in a virtual host into a file. It costs as much as the messages that it writes.",
  keyOf: ({ name }) => name,
  create: { label: "Start a trace", href: "#/start/trace", may: isAdministrator },
  columns: [
    { label: "Name", sort: "name", cell: ({ name }) => named(name) },
    VHOST,
    { label: "Pattern", sort: "pattern", cell: ({ pattern }) => named(pattern) },
    { label: "Format", sort: "format", cell: ({ format }) => format },
    { label: "Bytes of a body", sort: "max_payload_bytes", isNumber: true, cell: (trace) => (trace.max_payload_bytes === undefined ? "all" : number(trace.max_payload_bytes)) },
  ],
  actions: [
    {
      verb: "Stop",
      may: isAdministrator,
      names: ({ name, vhost }) => html`<code>${name}</code> <small>in ${vhost}</small>`,
      loss: () => "Their files stay.",
      act: async (trace) => {
        await ask("DELETE", path`/traces/${trace.vhost}/${trace.name}`);
        const { format, pattern, max_payload_bytes } = trace;
        return () => ask("PUT", path`/traces/${trace.vhost}/${trace.name}`, { format, pattern, max_payload_bytes });
      },
    },
  ],
};

/** @type {import("../page/list.js").List} */
export const TRACE_FILES = {
  step: "trace-files",
  title: "Trace files",
  noun: "file",
  path: "/trace-files",
  isWhole: true,
  tabs: TABS,
  may: isAdministrator,
  keyOf: ({ name }) => name,
  columns: [
    { label: "Name", sort: "name", cell: ({ name }) => html`<a href=${"/api" + path`/trace-files/${name}`} download=${name}>${named(name)}</a>` },
    { label: "Size", sort: "size", isNumber: true, cell: (file) => size(file.size) },
  ],
  actions: [
    {
      verb: "Delete",
      may: isAdministrator,
      names: ({ name }) => named(name),
      loss: () => "This cannot be undone.",
      act: ({ name }) => ask("DELETE", path`/trace-files/${name}`),
    },
  ],
};
