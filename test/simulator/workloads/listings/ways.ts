/** Ways of a client to make calls: as frames over a port, by the package's client, or by the JSON routes where they list. */
import type { ThrottrClient } from "../../../../src/client/client.ts";
import { ThrottrError } from "../../../../src/wire/edge/error.ts";
import { make, type Operation } from "../../../../src/wire/edge/operation.ts";
import type { OperationCalls } from "../../../../src/wire/edge/operation-calls.ts";
import * as operations from "../../../../src/wire/edge/operations.ts";
import type { CallKind } from "../../checks/codes.ts";
import type { Door } from "../../checks/history.ts";
import type { CallTimes } from "../../call-times.ts";
import type { Failures } from "../../failures.ts";
import type { Random } from "../../kernel/random.ts";
import { exchange } from "../../platform/net/exchange.ts";
import { SimRequest, type SimResponse } from "../../platform/net/messages.ts";
import type { RunningLife } from "../../platform/running-life.ts";
import type { World } from "../../world.ts";
import { clientOf } from "../package.ts";
import { PORTS } from "../every-port.ts";
import type { Answer, Port } from "../port.ts";
import { doorTo, isOpenForMany, SERVER } from "../ports.ts";

/** Calls that list, and those that change what is listed. */
export type CallName =
  | "insert"
  | "set"
  | "purge"
  | "restore"
  | "removeAll"
  | "acquire"
  | "release"
  | "list"
  | "exportPage"
  | "exportLeases"
  | "semaphores"
  | "holders";

/** A call by its name, with its arguments. */
export interface NamedCall<Name extends CallName = CallName> {
  readonly name: Name;
  readonly given: Parameters<OperationCalls[Name]>;
}

export type ResultOf<Name extends CallName> = Awaited<ReturnType<OperationCalls[Name]>>;

/** A call that came to nothing. */
export interface Failed {
  readonly failed: "refused" | "unknown";
  readonly code: string;
}

export interface Way {
  readonly door: Door;
  /** Makes calls in one message. */
  call<Name extends CallName>(
    calls: readonly NamedCall<Name>[],
  ): Promise<readonly ({ readonly result: ResultOf<Name> } | Failed)[]>;
  close(): void;
}

/** Codes that say nothing of what became of a call. */
const UNKNOWN_CODES = ["outcome_unknown", "internal_error", "timeout", "aborted", "answer_lost"];

export function failureOf(error: unknown): Failed {
  const { code } = ThrottrError.from(error);
  return { failed: UNKNOWN_CODES.includes(code) ? "unknown" : "refused", code };
}

/** What the reply to a frame says. */
export function resultOf<Result>(
  { failures }: Port,
  operation: Operation<Result>,
  answer: Answer,
): { readonly result: Result } | Failed {
  if (answer.kind === "unknown") return { failed: "unknown", code: "outcome_unknown" };
  if (answer.kind === "refused") return { failed: "refused", code: answer.code };
  try {
    return { result: failures.read("listings", () => operation.read(answer.reply)) };
  } catch (error) {
    if (!(error instanceof ThrottrError)) throw error;
    return failureOf(error);
  }
}

const makers = { ...operations };

export class PortWay implements Way {
  readonly port: Port;

  constructor(port: Port) {
    this.port = port;
  }

  get door(): Door {
    return this.port.door;
  }

  async call<Name extends CallName>(
    calls: readonly NamedCall<Name>[],
  ): Promise<readonly ({ readonly result: ResultOf<Name> } | Failed)[]> {
    const frames = calls.map(({ name, given }) => {
      const maker = makers[name] as (...given: readonly unknown[]) => Operation<ResultOf<Name>>;
      return make(() => maker(...given));
    });
    const answers = await this.port.exchange(frames);
    return frames.map((frame, i) => resultOf(this.port, frame, answers[i]!));
  }

  close(): void {
    this.port.close();
  }
}

class ClientWay implements Way {
  readonly door = "client";
  readonly #client: ThrottrClient;
  readonly #failures: Failures;
  readonly #times: CallTimes;
  readonly #life: RunningLife;

  constructor(client: ThrottrClient, { failures, times }: World, life: RunningLife) {
    this.#client = client;
    this.#failures = failures;
    this.#times = times;
    this.#life = life;
  }

  async call<Name extends CallName>(
    calls: readonly NamedCall<Name>[],
  ): Promise<readonly ({ readonly result: ResultOf<Name> } | Failed)[]> {
    type Call = (...given: readonly unknown[]) => Promise<ResultOf<Name>>;
    const client = this.#client as unknown as Readonly<Record<Name, Call>>;
    return await Promise.all(
      calls.map(async ({ name, given }) => {
        try {
          const called = client[name](...given);
          return { result: await this.#times.of("client", name, called, this.#life) };
        } catch (error) {
          this.#failures.noteCall(`${name} of a client`, error, "listings");
          const failed = failureOf(error);
          const isOpen = calls.length > 1 && isOpenForMany(failed.code);
          return isOpen ? { ...failed, failed: "unknown" } : failed;
        }
      }),
    );
  }

  close(): void {
    void this.#client.close();
  }
}

const CLIENT_SHARE = 0.2;

export const portWay = (world: World, life: RunningLife, random: Random): PortWay =>
  new PortWay(random.pick(PORTS)(world, life, random));

/** Any of the ways. */
export function wayOf(world: World, life: RunningLife, random: Random): Way {
  if (!random.chance(CLIENT_SHARE)) return portWay(world, life, random);
  // The first attempt of a call that is repeated, as those on leases may be, could be applied after its second.
  return new ClientWay(clientOf(world, life, random, { attemptsMax: 1 }), world, life);
}

/** A GET over HTTP, sent to one of the doors. */
export interface Get {
  readonly world: World;
  readonly life: RunningLife;
  /** Chooses the door. */
  readonly random: Random;
  readonly path: string;
  /** Says which codes may come. */
  readonly kind: CallKind;
}

/** Asks a route that answers with JSON. */
export async function getJson(call: Get): Promise<{ readonly result: unknown } | Failed> {
  return await get(call, async (response) => await response.json());
}

/** Asks a route that answers with text. */
export async function getText(call: Get): Promise<{ readonly result: string } | Failed> {
  return await get(call, async (response) => await response.text());
}

/** @param read the body of an answer with status 200; refusals are JSON on all routes */
async function get<Result>(
  { world, life, random, path, kind }: Get,
  read: (response: SimResponse) => Promise<Result>,
): Promise<{ readonly result: Result } | Failed> {
  const request = new SimRequest(`${SERVER}${path}`, { method: "GET" });
  const end = world.times.begin("http", `GET ${path}`);
  try {
    const { network } = world.cluster.site;
    const response = await exchange(network, life, doorTo(world, random), request);
    if (response.status === 200) return { result: await read(response) };
    const { code } = (await response.json()) as { readonly code: string };
    world.failures.noteCode(code, `GET ${path}`, kind);
    return { failed: "refused", code };
  } catch (error) {
    world.failures.noteError(`GET ${path.split("?")[0]}`, error);
    return { failed: "unknown", code: "outcome_unknown" };
  } finally {
    end();
  }
}
