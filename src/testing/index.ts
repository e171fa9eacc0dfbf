/**
 * The whole server inside a test: in the runtime that it is deployed to, on a free port of loopback.
 *
 * Needs `miniflare`, which is installed beside `wrangler`, and Node.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import * as miniflare from "miniflare";
import { isVariable, parseSettings } from "../base/settings.ts";
import { checkOptions, type FieldNames } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { http } from "../client/transport/http.ts";
import { ThrottrClient } from "../client/client.ts";
import { advanceClock, CLOCK_OBJECT, WORKER_NAME, type TestRuntime } from "./clock.ts";
import { flushNamespace } from "./flush.ts";

/** The newest that the runtimes of stable releases of miniflare know; nothing here needs a newer one. */
const COMPATIBILITY_DATE = "2026-05-01";
/** A compressed WebSocket message would take a thousand times its size in the server. */
const COMPATIBILITY_FLAGS = ["no_web_socket_compression", "enable_request_signal"];
const CLASSES = ["Shard", "Hub", "Channel", "Directory"];

export { advanceClock, type TestRuntime } from "./clock.ts";
/** Of a test server: a project with declarations of its own names it by this module. */
export type { ThrottrClient } from "../client/client.ts";

/** How the server is to be. */
export interface TestServerOptions {
  /**
   * Variables and secrets that differ from their defaults, such as `{ REPLAY_MESSAGES_MAX: "10" }`. `ACCESS` is `open`
   * unless said otherwise: then no token is needed.
   */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** Token of the client, where `ACCESS` is `token`. */
  readonly token?: string | undefined;
}

const OPTIONS: FieldNames<TestServerOptions> = { variables: true, token: true };

/** A server of a test. */
export interface TestServer extends AsyncDisposable {
  /** Where it is: `http://127.0.0.1:…/`. */
  readonly url: string;
  /** Calls it. */
  readonly client: ThrottrClient;
  /**
   * Removes all records of the client's namespace, and gives back what leases hold; for between two tests.
   */
  flush(): Promise<void>;
  /**
   * Moves the server's time ahead, and returns when all that is due by then is done: records, leases and tokens have ended,
   * windows are over, buckets have refilled. Time never goes back, not after `flush` either. Waits of the runtime are as
   * long as before, as is what the client itself waits for.
   *
   * @param ms whole milliseconds, 0 to 315,360,000,000 (ten years)
   * @throws RangeError for another number
   *
   * @example
   * await server.client.set("session", "ada", { ttlMs: 60_000 });
   * await server.advance(60_000);
   * await server.client.get("session"); // null
   */
  advance(ms: number): Promise<void>;
  /** Ends client and server; what was stored is gone. A further call changes nothing. */
  close(): Promise<void>;
}

/**
 * Starts the server.
 *
 * @throws ThrottrError `option_invalid`, also for a variable that the server does not have; `config_invalid` for a value that a
 * variable can't have; Error when miniflare can't start it
 *
 * @example
 * const server = await startThrottr();
 * await server.client.increment("views", { ttlMs: 60_000 }); // 1n
 * await server.close();
 */
export async function startThrottr(options: TestServerOptions = {}): Promise<TestServer> {
  checkOptions(options, OPTIONS, "startThrottr");
  // Anyone may enter, so a page that points its name to loopback may not. A Worker beside this one names any host.
  const variables = { HOSTS: "localhost", ...options.variables };
  const worker = await throttrWorker({ variables });
  // A socket of the Worker's own: the front that miniflare puts before it would compress WebSocket messages.
  const unsafeDirectSockets = [{ host: "127.0.0.1", port: 0 }];
  const runtime = startMiniflare({ workers: [{ ...worker, unsafeDirectSockets }] });
  const { href: url } = await runtime.unsafeGetDirectURL(WORKER_NAME);
  const { token } = options;
  const client = new ThrottrClient(http(url, token === undefined ? {} : { token }));
  const end = async (): Promise<void> => {
    await client.close();
    await runtime.dispose();
  };
  let ending: Promise<void> | undefined;
  // Miniflare 4 throws when it is ended a second time, as at the end of a block with `await using` that has closed the server.
  const close = async (): Promise<void> => await (ending ??= end());
  return {
    url,
    client,
    flush: async () => await flushNamespace(client),
    advance: async (ms) => await advanceClock(runtime, ms),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** A Worker among the `workers` of miniflare, in the form of its version 4. */
export type TestWorker = {
  readonly name: string;
  readonly compatibilityDate: string;
  readonly compatibilityFlags: string[];
  readonly modules: { type: "ESModule"; path: string; contents: string }[];
  readonly bindings: Record<string, string>;
  readonly durableObjects: Record<string, { className: string; useSQLite: boolean }>;
};

/**
 * The server as a Worker beside yours, which reaches it as
 * `serviceBindings: { THROTTR: { name: "throttr-edge", entrypoint: "Throttr" } }`. `advanceClock` moves its time.
 *
 * @throws ThrottrError `option_invalid`, `config_invalid` for variables, as `startThrottr`
 *
 * @example
 * const runtime = new Miniflare({ workers: [{ name: "mine", … }, await throttrWorker()] });
 * await advanceClock(runtime, 60_000);
 */
export async function throttrWorker({
  variables = {},
}: Pick<TestServerOptions, "variables"> = {}): Promise<TestWorker> {
  checkVariables(variables);
  const contents = await readFile(new URL("./test-worker.js", import.meta.url), "utf8");
  return {
    name: WORKER_NAME,
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: [...COMPATIBILITY_FLAGS],
    modules: [{ type: "ESModule", path: "test-worker.js", contents }],
    bindings: { ACCESS: "open", ...variables },
    durableObjects: {
      ...Object.fromEntries(
        CLASSES.map((className) => [className.toUpperCase(), { className, useSQLite: true }]),
      ),
      ...CLOCK_OBJECT,
    },
  };
}

/** A name that the server does not have would be without effect, and a wrong value be named only by its first answer. */
function checkVariables(variables: object): void {
  parseSettings(variables);
  const name = Object.keys(variables).find((each) => !isVariable(each));
  if (name === undefined) return;
  const detail = `variables.${name}: there is no such variable; docs/reference.md lists them`;
  throw new ThrottrError("option_invalid", detail);
}

interface Runtime extends TestRuntime {
  unsafeGetDirectURL(workerName: string): Promise<URL>;
  dispose(): Promise<void>;
}

/** Version 5 takes the options of version 4 when it is asked to. */
function startMiniflare(options: object): Runtime {
  const { Miniflare, convertV4MiniflareOptions: convert } = miniflare;
  const isVersion4 = typeof convert !== "function";
  return new Miniflare((isVersion4 ? options : convert(options as never)) as never);
}
