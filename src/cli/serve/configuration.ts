/**
 * The configuration of workerd: the Worker of `wrangler.toml`, with its data on disk.
 *
 * Source: `workerd.capnp` of the package workerd. The text is stored in the data folder, so it holds no secrets: workerd
 * reads those from its environment.
 */
import { relative, sep } from "node:path";
import { WORKER_FILE } from "../package-folder.ts";
import { addressText, type Address } from "./address.ts";
import { assetModuleName, frontModule, TCP_ENTRYPOINT, type Asset } from "./assets.ts";
import { capnpText, Embedded, type CapnpValue } from "./capnp-text.ts";
import { LINGERING_FILE, LINGERING_MODULE } from "./lingering.ts";
import type { ServePlan } from "./plan.ts";

/** The compatibility date of `wrangler.toml`; a test keeps the two equal. */
export const COMPATIBILITY_DATE = "2026-10-23";
/** The compatibility flags of `wrangler.toml`; a test keeps the two equal. */
export const COMPATIBILITY_FLAGS: readonly string[] = [
  "no_web_socket_compression",
  "enable_request_signal",
];
/** Name of the constant in the text that workerd serves. */
export const CONFIGURATION_NAME = "config";
/** Name of the file with the text. */
export const CONFIGURATION_FILE = "config.capnp";

/**
 * The classes of objects, each with the key that the ids of its objects are made from. With another key
 * all data is out of reach, so these never change. They are those of local runs of wrangler.
 */
export const UNIQUE_KEYS: Readonly<Record<string, string>> = {
  Shard: "throttr-edge-Shard",
  Hub: "throttr-edge-Hub",
  Channel: "throttr-edge-Channel",
  Directory: "throttr-edge-Directory",
};

/** What to serve, and where. */
export interface Serving extends Pick<
  ServePlan,
  "http" | "tcpHost" | "tcp" | "variables" | "isBehindProxy"
> {
  /** Names of secrets, which are in the environment of workerd. */
  readonly secretNames: readonly string[];
  /** Folder of the objects' files, absolute. */
  readonly objectsFolder: string;
  /** Folder of the Worker and the assets, absolute: workerd's import path. */
  readonly packageFolder: string;
  /** Files that are served without the Worker. */
  readonly assets: readonly Asset[];
}

/** A socket of the configuration: its name, which workerd uses in its reports, and its address. */
export const httpSocketName = (address: Address): string => `http ${addressText(address)}`;

/** The text of a configuration; workerd reads the Worker and the assets from `packageFolder` itself. */
export function configurationText(serving: Serving): string {
  const config: CapnpValue = {
    services: [
      { name: "throttr", worker: serverWorker(serving) },
      { name: "objects", disk: { path: serving.objectsFolder, writable: true } },
      // The Worker makes no requests to other servers, so a fault in it can't reach any.
      { name: "nowhere", network: { allow: [] } },
    ],
    sockets: [
      ...serving.http.map((address) => httpSocket(address, serving)),
      ...tcpSockets(serving),
    ],
  };
  return [
    `using Workerd = import "/workerd/workerd.capnp";`,
    `const ${CONFIGURATION_NAME} :Workerd.Config = ${capnpText(config)};`,
    "",
  ].join("\n");
}

/**
 * The Worker with its modules, bindings and objects, as `wrangler.toml` describes them for
 * Cloudflare.
 */
function serverWorker({ variables, secretNames, packageFolder, assets }: Serving): CapnpValue {
  const classes = Object.entries(UNIQUE_KEYS);
  return {
    // workerd looks for the handlers in the first module.
    modules: [
      { name: "front.js", esModule: frontModule(assets, WORKER_FILE) },
      { name: WORKER_FILE, esModule: new Embedded(`/${WORKER_FILE}`) },
      { name: LINGERING_FILE, esModule: LINGERING_MODULE },
      ...assets.map(({ file }, index) => ({
        name: assetModuleName(index),
        data: new Embedded(`/${relative(packageFolder, file).split(sep).join("/")}`),
      })),
    ],
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: COMPATIBILITY_FLAGS,
    globalOutbound: "nowhere",
    bindings: [
      ...Object.entries(variables).map(([name, text]) => ({ name, text })),
      ...secretNames.map((name) => ({ name, fromEnvironment: name })),
      ...classes.map(([className]) => ({
        name: className.toUpperCase(),
        durableObjectNamespace: className,
      })),
    ],
    durableObjectNamespaces: classes.map(([className, uniqueKey]) => ({
      className,
      uniqueKey,
      enableSql: true,
    })),
    durableObjectStorage: { localDisk: "objects" },
  };
}

/**
 * A socket for HTTP. workerd would pass a client's own `CF-Connecting-IP` on, which rate limits and
 * logs believe.
 */
function httpSocket(address: Address, { isBehindProxy }: Serving): CapnpValue {
  return {
    name: httpSocketName(address),
    address: addressText(address),
    http: isBehindProxy
      ? { forwardedProtoHeader: "X-Forwarded-Proto" }
      : // Without a proxy that sets it, it says whatever the client likes.
        { injectRequestHeaders: [{ name: "CF-Connecting-IP" }] },
    service: "throttr",
  };
}

/** Sockets for TCP, each handled by the entrypoint that alone has `connect`. */
function tcpSockets({ tcp, tcpHost }: Serving): CapnpValue[] {
  return tcp.map(({ port }) => {
    const address = addressText({ host: tcpHost, port });
    const service = { name: "throttr", entrypoint: TCP_ENTRYPOINT };
    return { name: `tcp ${address}`, address, tcp: {}, service };
  });
}
