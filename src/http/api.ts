// The API as a server: the contract's endpoints with their handlers, the pages that describe it, and the console's files.
import { join } from "node:path";
import { type Config, installation, places } from "../base/config.ts";
import { type Contract, contract, interfaceVersion } from "../contract/index.ts";
import { renderDocs } from "./docs.ts";
import { type AnyHandler, type Limits, mount } from "./mount.ts";
import { renderOpenApi } from "./openapi.ts";
import { createServer, type Server, type ServerParts } from "./server.ts";
import { filesUnder, staticFiles } from "./static.ts";

/** A handler for every endpoint of the contract. */
export type ApiHandlers = Readonly<Record<keyof Contract, AnyHandler>>;

export interface ApiParts
  extends Omit<ServerParts, "pages" | "files" | "routes" | "count" | "checkWritable">,
    Pick<Limits, "once" | "isKnown"> {
  /** Counts requests by their route and status. */
  metrics: { request: ServerParts["count"] };
  /** Refuses writes while this version is on trial after an upgrade. */
  trial: { checkWritable: ServerParts["checkWritable"] };
  /** Refuses new work while the disk is nearly full. */
  ballast: { check: Limits["checkDisk"] };
  handlers: ApiHandlers;
  /** Values that X-Provider may have. */
  providers: readonly string[];
}

export function createApi(parts: ApiParts): Server {
  const describeApi = () => renderOpenApi(contract, interfaceVersion, [...parts.providers]);
  return createServer({
    ...parts,
    count: parts.metrics.request,
    checkWritable: parts.trial.checkWritable,
    pages: {
      "/openapi.json": { type: "application/json", render: () => JSON.stringify(describeApi()) },
      "/docs": { type: "text/html", render: () => renderDocs(describeApi()) },
    },
    files: staticFiles(consoleFiles()),
    routes: mount<keyof Contract>(contract, parts.handlers, {
      ...limitsOf(parts.config),
      checkDisk: parts.ballast.check,
      once: parts.once,
      isKnown: parts.isKnown,
    }),
  });
}

function limitsOf(config: Config): Omit<Limits, "checkDisk" | "once" | "isKnown"> {
  const { uploadBytes: fileBytes, uploadFiles: files, freeDisk, bodyBytes, modelBytes } = config;
  const paceOf = (seconds: number) => ({ seconds, rate: config.bodyRate, windowSeconds: 15 });
  const folder = places(config.data).uploads;
  const upload = { folder, fileBytes, files, freeDisk, pace: paceOf(config.uploadSeconds) };
  return { bodyBytes, modelBytes, pace: paceOf(config.bodySeconds), upload };
}

/** Paths of the console's page, its files, the help and the charts' library. At /first-key the page makes the first key. */
function consoleFiles(): [path: string, file: string][] {
  const folder = join(installation, "src/console");
  const charts = join(installation, "node_modules/uplot/dist");
  return [
    ...filesUnder("/console/", folder),
    ["/", join(folder, "index.html")],
    ["/first-key", join(folder, "index.html")],
    ["/help", join(folder, "help/en.html")],
    ["/help/de", join(folder, "help/de.html")],
    ["/console/uplot.js", join(charts, "uPlot.iife.min.js")],
    ["/console/uplot.css", join(charts, "uPlot.min.css")],
  ];
}
