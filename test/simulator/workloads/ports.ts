/** Ports: how the frames of a client reach a door. */
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import {
  messageOf,
  operationReplyLength,
  type Operation,
} from "../../../src/wire/edge/operation.ts";
import { clone, cloneError } from "../platform/clone.ts";
import { exchange, type Door } from "../platform/net/exchange.ts";
import { SimRequest } from "../platform/net/messages.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Random } from "../kernel/random.ts";
import type { World } from "../world.ts";
import { DEFAULT, headersOf } from "./namespaces.ts";
import type { Answer, OpenPort } from "./port.ts";
import { EDGE } from "./wire.ts";

/** Where clients find the deployment. */
export const SERVER = "https://edge.example";

/** Over HTTP: a message is the body of a request. */
export const httpPort: OpenPort = (world, client, random, protocol = EDGE) => {
  let connection = world.newConnection();
  return {
    door: "http",
    failures: world.failures,
    get connection() {
      return connection;
    },
    async exchange(operations) {
      connection = world.newConnection();
      const end = world.times.begin("http", `POST ${protocol.path}`, client);
      const body = messageOf(operations);
      const headers = headersOf(protocol.namespace);
      const request = new SimRequest(`${SERVER}${protocol.path}`, {
        method: "POST",
        headers,
        body,
      });
      try {
        const { network } = world.cluster.site;
        const response = await exchange(network, client, doorTo(world, random), request);
        if (response.status !== 200) {
          const problem = (await response.json()) as { code: string };
          world.failures.noteCode(problem.code, `POST ${protocol.path}`, "message");
          return all(operations, answerOf(problem.code, operations.length));
        }
        return splitReplies(operations, await response.bytes());
      } catch (error) {
        world.failures.noteError("a body over HTTP", error);
        return all(operations, { kind: "unknown", reason: String(error) });
      } finally {
        end();
      }
    },
    close: () => {},
    isClosed: false,
    onCloseLeft: () => {},
  };
};

/** Over a service binding: a message is a call of the entrypoint, in the edge dialect. */
export const bindingPort: OpenPort = (world, client, random, { namespace } = EDGE) => {
  let connection = world.newConnection();
  return {
    door: "binding",
    failures: world.failures,
    get connection() {
      return connection;
    },
    async exchange(operations) {
      connection = world.newConnection();
      const end = world.times.begin("binding", "exchange", client);
      try {
        return splitReplies(
          operations,
          await callBinding(world, client, random, messageOf(operations), namespace),
        );
      } catch (error) {
        world.failures.noteFailure("a message over a binding", error, "message");
        const { code } = ThrottrError.from(error instanceof Error ? error.message : String(error));
        return all(operations, answerOf(code, operations.length));
      } finally {
        end();
      }
    },
    close: () => {},
    isClosed: false,
    onCloseLeft: () => {},
  };
};

/** The network leads each request to one of the doors. */
export const doorTo = (world: World, random: Random): Door => ({
  enter: (event) => world.door(random).enter(event as never),
});

/** Calls `exchange` of the entrypoint with the frames of a message. */
export function callBinding(
  world: World,
  client: RunningLife,
  random: Random,
  message: Uint8Array,
  namespace = DEFAULT,
): Promise<Uint8Array> {
  const { time, faults } = world.cluster.site;
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const body = clone(message);
  const back = (settle: () => void): void => {
    client.later(faults.latencyMs("client"), "answer of binding", settle);
  };
  time.after(faults.latencyMs("client"), () => {
    const door = world.door(random);
    const { isolate } = door;
    const end = isolate.watch((error) => back(() => reject(error)));
    const props = namespace === DEFAULT ? {} : { namespace };
    door.enterCall("exchange", "Throttr", props, async (life, instance) => {
      const entrypoint = instance as { exchange(frames: Uint8Array): Promise<Uint8Array> };
      try {
        const copy = clone(await entrypoint.exchange(body));
        if (!life.isOver) back(() => resolve(copy));
      } catch (error) {
        const copy = cloneError(error);
        if (!life.isOver) {
          world.cluster.site.onError(life, "exchange of a door", error);
          back(() => reject(copy));
        }
      }
      end();
    });
  });
  return promise;
}

/** Codes that don't say that nothing was applied. Messages of the platform have none: what stands for theirs has no underscore. */
const OPEN_CODES = ["outcome_unknown", "internal_error"];

/** A door of release 0.4.0 answers a whole message so where one of its shards has refused it: others may have applied their part. */
export const isOpenForMany = (code: string): boolean => code === "batch_version";

function answerOf(code: string, requests: number): Answer {
  const isOpen = OPEN_CODES.includes(code) || !code.includes("_");
  return isOpen || (requests > 1 && isOpenForMany(code))
    ? { kind: "unknown", reason: code }
    : { kind: "refused", code };
}

const all = (operations: readonly unknown[], answer: Answer): Answer[] =>
  operations.map(() => answer);

/** Replies in the order of their requests; what is missing is not known. */
export function splitReplies(
  operations: readonly Operation<unknown>[],
  bytes: Uint8Array,
): Answer[] {
  let at = 0;
  return operations.map(({ type, replyLength }) => {
    const end = bytes.length;
    const length = replyLength?.(bytes, at, end) ?? operationReplyLength(type, bytes, at, end);
    if (length === 0) return { kind: "unknown", reason: "the reply is missing" };
    const reply = bytes.slice(at, at + length);
    at += length;
    return { kind: "reply", reply };
  });
}
