/**
 * Clients use tokens over HTTP and over WebSockets, for their namespace and for all, while tokens expire and are revoked: one by one,
 * and all that were issued before a moment. The deployment lets everyone in, and checks each token that a request has. In the end every token is used again.
 */
import type { Plan } from "../campaign/plan.ts";
import {
  ACCEPTED,
  checkTokens,
  type SeenToken,
  type TokenCall,
  type TokenOperation,
} from "../checks/tokens.ts";
import { History, type Moment, type Violation } from "../checks/history.ts";
import { messageOf } from "../../../src/wire/edge/operation.ts";
import { query } from "../../../src/wire/edge/operations.ts";
import { exchange } from "../platform/net/exchange.ts";
import { SimRequest } from "../platform/net/messages.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { readPush, whoamiFrame } from "./channels/frames.ts";
import { pause, startClients, type Client } from "./client.ts";
import { signedToken } from "./jwt.ts";
import { DEFAULT } from "./namespaces.ts";
import { Pipe } from "./pipe.ts";
import { doorTo, SERVER } from "./ports.ts";
import { EDGE } from "./wire.ts";

const SCOPES = ["read", "write", "publish", "subscribe"];
/** Of tokens: for all namespaces. */
const FOR_ALL_SHARE = 0.3;
/** How long a token is valid, in seconds. The last ones outlive the run. */
const TTL_S = { least: 5, most: 3000 };
const NEW_SHARE = 0.2;
/** Mostly one of the latest tokens is used. */
const LATEST = { share: 0.8, count: 12 };
/**
 * Revocations among the operations of a run. Hubs check the whole list at each revocation, so only rare ones show whether Hubs are
 * told of each a second time.
 */
const REVOKED_SHARES = [0.05, 0.005];
/** Of revocations: of all tokens that were issued before. */
const ALL_SHARE = 0.1;
/** Of revocations of one token: says when it expires. */
const WITH_END_SHARE = 0.5;
/** Of revocations: whoever has the token goes on to use it, while doors learn of that. */
const STUBBORN_SHARE = 0.5;
const LATER_MS = { least: 100, most: 60_000 };
/** The connection that it opens then is used again and again, at these intervals: longer than Hubs may take to learn of it. */
const AGAIN = { timesMost: 12, everyMs: 15_000 };
const HTTP_SHARE = 0.5;
/** Of connections, for each client. */
const PIPES_MOST = 3;
const REUSED_SHARE = 0.6;
const END_SHARE = 0.05;
/** Longer than any door or Hub may take to learn of a revocation, with all that may have gone wrong before. */
const REST_MS = 320_000;
/** No clock is so far behind, and in the end it is so long ago that tokens were revoked. */
const OLD_S = 120;
/** Each door reads the list again where that has failed: within a few requests. */
const ROUNDS = 3;
const ROUND_REQUESTS = 10;
const ROUND_MS = 10_000;
/** A request of which nothing but its token matters, and which each release knows. */
const { path: PATH } = EDGE;
const MESSAGE = messageOf([query("tokens")]);
const REVOCATIONS = "/v1/tokens/revocations";

interface Opened {
  readonly pipe: Pipe;
  readonly token: SeenToken;
  readonly openedAt: Moment;
}

export class Tokens implements Workload {
  readonly name = "tokens";
  readonly #plan: Plan;
  readonly #tokens: SeenToken[] = [];
  #history!: History<TokenOperation, string>;
  #revokedShare!: number;
  readonly #opened = new Set<Opened>();
  /** IDs that are listed as revoked in the end, of tokens for one namespace and of those for all. */
  readonly #listed = new Set<string>();
  #listedAt: Moment | null = null;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    this.#revokedShare = world.random.fork("revocations").pick(REVOKED_SHARES);
    startClients(world, this.name, this.#plan, async (client) => await this.#work(client));
  }

  async #work(client: Client): Promise<void> {
    const { world, random, most } = client;
    for (let made = 0; made < most && !world.isClosing; made++) {
      await pause(client);
      if (this.#isToday && random.chance(this.#revokedShare)) await this.#revoke(client);
      else if (random.chance(HTTP_SHARE)) await this.#useOverHttp(client, this.#token(client));
      else await this.#useOverSocket(client);
    }
  }

  /** Doors of the release before accept revoked tokens, and know none for all namespaces. */
  get #isToday(): boolean {
    return this.#plan.release === "today";
  }

  #token({ world, random }: Pick<Client, "world" | "random">): SeenToken {
    const known = this.#tokens.slice(random.chance(LATEST.share) ? -LATEST.count : 0);
    if (known.length > 0 && !random.chance(NEW_SHARE)) return random.pick(known);
    const issuedAtS = Math.floor(world.time.nowMs / 1000);
    const expiresAtS = issuedAtS + Math.round(random.skewed(TTL_S.least, TTL_S.most));
    const isForAll = this.#isToday && random.chance(FOR_ALL_SHARE);
    const token = { id: `token-${this.#tokens.length}`, issuedAtS, expiresAtS, isForAll };
    this.#tokens.push(token);
    return token;
  }

  async #useOverHttp(client: Client, token: SeenToken): Promise<void> {
    const operation = { name: "use", token, openedAt: null } as const;
    const call = this.#begin(client, operation, null);
    const authorization = credentials(token);
    const asked = { method: "POST", path: PATH, authorization, body: MESSAGE } as const;
    this.#end(call, await askHttp(client, asked));
  }

  async #useOverSocket(client: Client): Promise<void> {
    const { random } = client;
    const open = [...this.#opened].filter(({ pipe }) => !pipe.isOver);
    const isFull = open.length >= PIPES_MOST * this.#plan.clients;
    const isReused = open.length > 0 && (isFull || random.chance(REUSED_SHARE));
    const opened = isReused ? random.pick(open) : this.#open(client, this.#token(client));
    if (random.chance(END_SHARE)) opened.pipe.end();
    else await this.#ask(client, opened);
  }

  #open({ world, life, random }: Client, token: SeenToken): Opened {
    const openedAt = world.moments.now();
    const options = {
      kind: "websocket",
      protocol: EDGE,
      connection: world.newConnection(),
      subprotocols: ["throttr", `bearer.${credentials(token)}`],
    } as const;
    const pipe = new Pipe(world, life, random, options, {
      readPush: (bytes, at) => {
        const push = readPush(bytes, at);
        if (push === null) return null;
        return push === "partial" ? 0 : push.length;
      },
    });
    const opened = { pipe, token, openedAt };
    this.#opened.add(opened);
    return opened;
  }

  async #ask(client: Client, { pipe, token, openedAt }: Opened): Promise<void> {
    if (pipe.isOver || pipe.isClosed) return;
    client.world.operations++;
    const call = this.#begin(client, { name: "use", token, openedAt }, pipe.connection);
    const [answered] = pipe.send([whoamiFrame()]);
    const { kind } = await answered!;
    this.#end(call, kind === "reply" ? ACCEPTED : null);
  }

  async #revoke(client: Client): Promise<void> {
    const { world, life, random } = client;
    const token = this.#token(client);
    const { isForAll } = token;
    const what = random.chance(ALL_SHARE)
      ? { issuedBeforeMs: Math.floor(world.time.nowMs) }
      : { id: token.id };
    const hasEnd = "id" in what && random.chance(WITH_END_SHARE);
    const body = hasEnd ? { ...what, expiresAtMs: token.expiresAtS * 1000 } : what;
    const call = this.#begin(client, { name: "revoke", of: { ...what, isForAll } }, null);
    const authorization = isForAll ? operators(world) : null;
    const asked = { method: "POST", path: REVOCATIONS, authorization, body } as const;
    this.#end(call, await askHttp(client, asked));
    if (!random.chance(STUBBORN_SHARE)) return;
    await life.settled(random.skewed(LATER_MS.least, LATER_MS.most), "pause", () => {});
    const opened = this.#open(client, token);
    for (let left = random.int(AGAIN.timesMost); !opened.pipe.isOver && !world.isClosing; left--) {
      await this.#ask(client, opened);
      if (left === 0) return;
      await life.settled(AGAIN.everyMs, "pause", () => {});
    }
  }

  #begin(client: Client, operation: TokenOperation, connection: number | null): TokenCall {
    const door = connection === null ? "http" : "websocket";
    return this.#history.begin({ client: client.number, door, connection, operation });
  }

  /** @param outcome null where nothing is known of it */
  #end(call: TokenCall, outcome: string | null): void {
    if (outcome === null) this.#history.giveUp(call);
    else this.#history.end(call, outcome);
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    await life.settled(REST_MS, "rest", () => {});
    const random = world.random.fork("finish of tokens");
    const client: Client = { world, life, random, number: -1, most: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      for (let i = 0; i < ROUND_REQUESTS; i++) {
        await this.#useOverHttp(client, newest(world, false));
        if (this.#isToday) await this.#useOverHttp(client, newest(world, true));
      }
      await life.settled(ROUND_MS, "pause", () => {});
    }
    for (const token of this.#tokens) await this.#useOverHttp(client, token);
    for (const opened of this.#opened) await this.#ask(client, opened);
    for (const { pipe } of this.#opened) pipe.end();
    if (!this.#isToday) return;
    this.#listedAt = world.moments.now();
    for (const authorization of [null, operators(world, OLD_S)]) {
      for (const id of await listRevoked(client, authorization)) this.#listed.add(id);
    }
  }

  check(world: World): readonly Violation[] {
    const terms = { hasFaults: !world.isCalm, unread: world.witness.unreadSpans() };
    return [...checkTokens(this.#history.calls, terms), ...this.#unlisted()];
  }

  /** A revocation that was answered stays listed until its token has expired. */
  #unlisted(): Violation[] {
    const [listed, listedAt] = [this.#listed, this.#listedAt];
    if (listedAt === null) return [];
    const expiryOf = new Map(this.#tokens.map(({ id, expiresAtS }) => [id, expiresAtS * 1000]));
    return this.#history.calls.flatMap(({ operation, outcome }) => {
      if (operation.name !== "revoke" || outcome !== ACCEPTED || !("id" in operation.of)) return [];
      const { id } = operation.of;
      if (listed.has(id) || expiryOf.get(id)! <= listedAt.ms) return [];
      return [{ promise: "Tokens", subject: id, message: "was revoked, and is not listed" }];
    });
  }
}

/** One more token, that nobody revokes. */
function newest({ time }: World, isForAll: boolean): SeenToken {
  const issuedAtS = Math.floor(time.nowMs / 1000);
  return { id: "last", issuedAtS, expiresAtS: issuedAtS + TTL_S.most, isForAll };
}

/** What an operator of all namespaces sends: a token that was issued a while ago. */
function operators(world: World, agoS = 0): string {
  const token = newest(world, true);
  return signed({ ...token, issuedAtS: token.issuedAtS - agoS }, ["admin"]);
}

interface Asked {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly authorization: string | null;
  /** JSON, unless it is bytes. */
  readonly body?: object;
}

/** @returns `ACCEPTED`, or the code of a refusal; null where nothing is known */
async function askHttp(client: Client, asked: Asked): Promise<string | null> {
  const { failures } = client.world;
  const { method, path } = asked;
  try {
    const response = await send(client, asked);
    if (response.status < 300) return ACCEPTED;
    const { code } = (await response.json()) as { readonly code: string };
    failures.noteCode(code, `${method} ${path}`, "message", "tokens");
    return response.status < 500 ? code : null;
  } catch (error) {
    failures.noteError(`${method} ${path}`, error);
    return null;
  }
}

async function send({ world, life, random }: Client, { method, path, authorization, body }: Asked) {
  world.operations++;
  const headers: Record<string, string> = {};
  if (authorization !== null) headers["authorization"] = `Bearer ${authorization}`;
  const init = body === undefined ? {} : { body: bodyOf(body) };
  const request = new SimRequest(`${SERVER}${path}`, { method, headers, ...init });
  const { network } = world.cluster.site;
  return await world.times.of(
    "http",
    `${method} ${path}`,
    exchange(network, life, doorTo(world, random), request),
  );
}

const bodyOf = (body: object): Uint8Array | string =>
  body instanceof Uint8Array ? body : JSON.stringify(body);

/** @param authorization of an operator of all namespaces, whose list it is; null for that of the namespace */
async function listRevoked(client: Client, authorization: string | null): Promise<string[]> {
  const response = await send(client, { method: "GET", path: REVOCATIONS, authorization });
  const { tokens } = (await response.json()) as { readonly tokens: readonly { id: string }[] };
  return tokens.map(({ id }) => id);
}

/** What the bearer of a token sends: one for all namespaces has the name of one behind it. */
const credentials = (token: SeenToken): string =>
  token.isForAll ? `${signed(token)}~${DEFAULT}` : signed(token);

function signed(token: SeenToken, scopes = SCOPES): string {
  const { id, issuedAtS, expiresAtS, isForAll } = token;
  const ns = isForAll ? "*" : DEFAULT;
  return signedToken({ ns, scopes, jti: id, iat: issuedAtS, exp: expiresAtS });
}
