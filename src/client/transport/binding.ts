/** Transport over a service binding of Workers: a message is one RPC call. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { shown } from "../../wire/ratelimit/error.ts";
import { outcomeUnknown } from "../calls/call.ts";
import { DOOR_PATH } from "./door.ts";
import { errorOfAnswer, errorOfText } from "./failure.ts";
import type { PlatformSocket } from "../platform.ts";
import { openSocket, type MadeSocket } from "./platform-socket.ts";
import type { Ending, Transport } from "./transport.ts";

/**
 * A service binding whose entrypoint is `Throttr`, in whatever type the project has for it.
 *
 * @example
 * // wrangler.toml: services = [{ binding = "THROTTR", service = "throttr-edge", entrypoint = "Throttr" }]
 * interface Env {
 *   THROTTR: ThrottrService;
 * }
 */
export interface ThrottrBinding {
  fetch(request: never): Promise<unknown>;
}

/** The methods of such a binding. */
interface Binding {
  exchange(frames: Uint8Array<ArrayBuffer>): Promise<Uint8Array>;
  fetch(url: string, init: { readonly headers: Record<string, string> }): Promise<UpgradeResponse>;
}

/** The answer to a request to open a WebSocket. */
interface UpgradeResponse {
  readonly status: number;
  /** Null when the server refuses. */
  readonly webSocket: (PlatformSocket & { accept(): void }) | null;
  text(): Promise<string>;
}

/** Any host would do: the binding decides which Worker answers. */
const ORIGIN = "https://throttr";

/**
 * Carries calls over a service binding, those of one turn in one RPC call. The binding's props give the rights; there is no
 * token.
 *
 * In a Worker, sockets and timers belong to the request that opens them: create a client for each request,
 * which costs nothing until it is used.
 *
 * @example
 * export default {
 *   async fetch(request, env) {
 *     const throttr = new ThrottrClient(serviceBinding(env.THROTTR));
 *     const { success } = await throttr.limit({ name: "api", key: "user:1", strategy });
 *     return new Response(null, { status: success ? 200 : 429 });
 *   },
 * };
 *
 * @throws ThrottrError `argument_invalid`
 */
export function serviceBinding(binding: ThrottrBinding): Transport {
  // Platforms make stubs of many kinds, functions and proxies among them: only a missing one can be detected.
  if ((binding as unknown) == null) {
    throw new ThrottrError(
      "argument_invalid",
      `binding: expected a service binding, got ${shown(binding)}; is it among the services of wrangler.toml?`,
    );
  }
  const server = binding as unknown as Binding;
  const source = {
    prepare: async () => await upgrade(server),
    canReturnFrom: () => true,
  };
  return {
    exchange: async (message) => {
      try {
        return await server.exchange(message);
      } catch (cause) {
        const text = cause instanceof Error ? cause.message : String(cause);
        throw errorOfText(text, cause) ?? outcomeUnknown(`the call failed: ${text}`, cause);
      }
    },
    connect: (events) => openSocket(source, events),
  };
}

async function upgrade(server: Binding): Promise<(() => MadeSocket) | Ending> {
  const headers = { upgrade: "websocket", "sec-websocket-protocol": "throttr" };
  const response = await server.fetch(ORIGIN + DOOR_PATH, { headers });
  const { webSocket: socket, status } = response;
  if (socket !== null) return () => ({ socket, accept: () => socket.accept() });
  const error = errorOfAnswer(await response.text());
  return {
    error: error ?? new ThrottrError("connection_failed", `HTTP ${status}`),
    isFinal: status >= 400 && status < 500,
  };
}
