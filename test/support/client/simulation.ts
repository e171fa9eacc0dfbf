/**
 * A simulation of a client and the server it is connected to: a script says what the caller does, what
 * arrives in which pieces, and how connections end.
 */
import fc from "fast-check";
import { ThrottrClient } from "../../../src/client/client.ts";
import type { Subscription } from "../../../src/client/channels/subscription.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { FakeClock, turn } from "./clock.ts";
import { FakeServer, quotaOf, REFUSED_PREFIX, type FakeConnection } from "./server.ts";

const CHANNELS = ["a", "b", "c"];
const QUEUE_MAX = 20;

type CallKind = "once" | "reading" | "repeatable" | "refused";

interface MadeCall {
  readonly kind: CallKind;
  readonly key: string;
  readonly aborter: AbortController;
  executions: number;
  outcome: { value: unknown } | { error: ThrottrError } | null;
}

interface Listening {
  readonly channel: string;
  readonly subscription: Subscription;
  readonly expected: string[];
  readonly received: string[];
  isOver: boolean;
}

/** What becomes of frames that a connection has received and not answered when it ends. */
type End = "executed" | "ignored" | "expired" | "unreadable" | "refused";

export type Action =
  | { readonly type: "call"; readonly kinds: readonly CallKind[] }
  | { readonly type: "abort"; readonly call: number }
  | { readonly type: "subscribe"; readonly channel: number }
  | { readonly type: "leave"; readonly listener: number }
  | { readonly type: "push"; readonly channel: number }
  | { readonly type: "open" }
  | { readonly type: "answer"; readonly count: number }
  | { readonly type: "deliver"; readonly bytes: number }
  | { readonly type: "end"; readonly end: End }
  | { readonly type: "pass"; readonly durationMs: number }
  | { readonly type: "serve" }
  | { readonly type: "turn" };

/** Anything that may happen, in any order. */
export const scripts: fc.Arbitrary<Action[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        type: fc.constant("call" as const),
        kinds: fc.array(fc.constantFrom<CallKind>("once", "reading", "repeatable", "refused"), {
          minLength: 1,
          maxLength: 4,
        }),
      }),
    },
    fc.record({ type: fc.constant("abort" as const), call: fc.nat(30) }),
    {
      weight: 2,
      arbitrary: fc.record({ type: fc.constant("subscribe" as const), channel: fc.nat(2) }),
    },
    fc.record({ type: fc.constant("leave" as const), listener: fc.nat(5) }),
    { weight: 2, arbitrary: fc.record({ type: fc.constant("push" as const), channel: fc.nat(2) }) },
    { weight: 4, arbitrary: fc.constant({ type: "open" as const }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant("answer" as const), count: fc.nat(5) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        type: fc.constant("deliver" as const),
        bytes: fc.integer({ min: 1, max: 60 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("end" as const),
        end: fc.constantFrom<End>("executed", "ignored", "expired", "unreadable", "refused"),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("pass" as const),
        durationMs: fc.constantFrom(1, 50, 100, 200, 400, 4000, 16_000),
      }),
    },
    { weight: 5, arbitrary: fc.constant({ type: "serve" as const }) },
    { weight: 4, arbitrary: fc.constant({ type: "turn" as const }) },
  ),
  { maxLength: 60, size: "max" },
);

export class Simulation {
  readonly #server = new FakeServer();
  readonly #clock: FakeClock;
  readonly #client: ThrottrClient;
  /** What was not as it must be. */
  readonly faults: string[] = [];
  readonly calls: MadeCall[] = [];
  readonly #byKey = new Map<string, MadeCall>();
  readonly listeners: Listening[] = [];
  #pushes = 0;

  constructor(random: () => number) {
    this.#clock = new FakeClock(random);
    this.#client = new ThrottrClient(this.#server, { clock: this.#clock, queueMax: QUEUE_MAX });
  }

  /** Plays a script to its end, then checks what came of it. */
  async run(script: readonly Action[]): Promise<void> {
    for (const action of script) await this.#do(action);
    await this.#settle();
    await this.#check();
  }

  async #do(action: Action): Promise<void> {
    switch (action.type) {
      case "call":
        for (const kind of action.kinds) this.#call(kind);
        break;
      case "abort":
        this.calls[action.call]?.aborter.abort();
        break;
      case "subscribe":
        this.#subscribe(CHANNELS[action.channel]!);
        break;
      case "leave":
        await this.#leave(action.listener);
        break;
      case "push":
        this.#push(CHANNELS[action.channel]!);
        break;
      case "open":
        if (this.#connection?.state === "opening") this.#connection.open();
        break;
      case "answer":
        this.#answer(action.count);
        break;
      case "deliver":
        if (this.#isOpen) this.#connection!.deliver(action.bytes);
        break;
      case "serve":
        await this.#serve();
        break;
      case "end":
        this.#end(action.end);
        break;
      case "pass":
        await this.#clock.pass(action.durationMs);
        break;
      case "turn":
        await turn();
        break;
    }
  }

  get #connection(): FakeConnection | undefined {
    return this.#server.connections.at(-1);
  }

  get #isOpen(): boolean {
    return this.#connection?.state === "open";
  }

  #call(kind: CallKind): void {
    const key = `${kind === "refused" ? REFUSED_PREFIX : ""}${kind}:${this.calls.length}`;
    const aborter = new AbortController();
    const call: MadeCall = { kind, key, aborter, executions: 0, outcome: null };
    this.calls.push(call);
    this.#byKey.set(key, call);
    this.#make(call).then(
      (value) => (call.outcome = { value }),
      (error: unknown) => (call.outcome = { error: error as ThrottrError }),
    );
  }

  async #make({ kind, key, aborter: { signal } }: MadeCall): Promise<unknown> {
    if (kind === "reading") return (await this.#client.query(key, { signal }))?.quota;
    const idempotencyKey = kind === "repeatable" ? { idempotencyKey: key } : {};
    return await this.#client.increment(key, { ttlMs: 1, signal, ...idempotencyKey });
  }

  #subscribe(channel: string): void {
    const subscription = this.#client.subscribe(channel);
    const listening: Listening = {
      channel,
      subscription,
      expected: [],
      received: [],
      isOver: false,
    };
    this.listeners.push(listening);
    void this.#read(listening);
  }

  async #read(listening: Listening): Promise<void> {
    try {
      for await (const message of listening.subscription) {
        listening.received.push(message.text());
        this.#expect(message.channel === listening.channel, "a message of another channel");
        this.#expect(message.missed === 0, "a message was missed");
      }
    } catch (error) {
      this.#expect(error instanceof ThrottrError, `a subscription ended with ${String(error)}`);
    }
    listening.isOver = true;
  }

  async #leave(index: number): Promise<void> {
    const listening = this.listeners[index];
    if (listening === undefined) return;
    listening.isOver = true;
    await listening.subscription.return();
  }

  #push(channel: string): void {
    if (!this.#isOpen) return;
    const payload = `message ${this.#pushes++}`;
    const push = (to: string): void =>
      this.#connection!.push(to, payload, () => {
        for (const listening of this.listeners) {
          if (listening.channel === to && !listening.isOver) listening.expected.push(payload);
        }
      });
    // Every connection is subscribed to some channels that nobody asked for.
    push(this.#connection!.subscribed.has(channel) ? channel : "*");
  }

  #answer(count?: number): void {
    if (!this.#isOpen) return;
    this.#connection!.answer(count, ({ name }) => this.#execute(name));
  }

  #execute(key: string): void {
    const call = this.#byKey.get(key);
    if (call !== undefined) call.executions++;
  }

  #end(end: End): void {
    const connection = this.#connection;
    if (connection === undefined || connection.state === "closed") return;
    if (end === "executed") for (const { name } of connection.frames) this.#execute(name);
    const isOrderly = end !== "executed" && end !== "ignored";
    // What was begun is answered, and nothing else is applied.
    if (isOrderly && connection.state === "open") connection.deliver();
    if (!isOrderly) connection.end();
    else if (end === "unreadable" && connection.frames.length > 0)
      connection.end("frame_too_large");
    else connection.end("token_expired", end === "refused");
  }

  /** Nothing goes wrong any more. */
  async #settle(): Promise<void> {
    for (let i = 0; i < 100; i++) {
      await this.#serve();
      if (this.calls.every(({ outcome }) => outcome !== null) && !this.#isBehind) break;
      await this.#clock.pass(100);
    }
  }

  /** Opens, answers and delivers what there is. */
  async #serve(): Promise<void> {
    await turn();
    if (this.#connection?.state === "opening") this.#connection.open();
    await turn();
    if (this.#isOpen) {
      this.#answer();
      this.#connection!.deliver();
    }
    await turn();
  }

  /** There are subscriptions that the server does not know of, or no more of. */
  get #isBehind(): boolean {
    const wanted = new Set(
      this.listeners.filter(({ isOver }) => !isOver).map(({ channel }) => channel),
    );
    const subscribed = this.#isOpen ? this.#connection!.subscribed : new Set<string>();
    return wanted.size !== subscribed.size || ![...wanted].every((name) => subscribed.has(name));
  }

  async #check(): Promise<void> {
    for (const call of this.calls) {
      for (const fault of faultsOf(call)) this.faults.push(`${call.key}: ${fault}`);
    }
    this.#expect(!this.#isBehind, "subscriptions are not restored");
    for (const channel of CHANNELS) this.#push(channel);
    if (this.#isOpen) this.#connection!.deliver();
    await turn();
    for (const { expected, received } of this.listeners) {
      const isSame = expected.join() === received.join();
      this.#expect(isSame, `received ${received.join()} in place of ${expected.join()}`);
    }
    await this.#client.close();
    await turn();
    this.#expect(
      this.listeners.every(({ isOver }) => isOver),
      "a subscription outlived the client",
    );
    this.#expect(this.#connection?.state !== "open", "the connection outlived the client");
    this.#expect(this.#clock.pendingMs.length === 0, "a timer outlived the client");
  }

  #expect(isTrue: boolean, otherwise: string): void {
    if (!isTrue) this.faults.push(otherwise);
  }
}

const CODES: readonly string[] = [
  "aborted",
  "connection_failed",
  "frame_too_large",
  "outcome_unknown",
  "queue_full",
  "timeout",
  "token_expired",
];

function* faultsOf({ kind, key, executions, outcome }: MadeCall): Generator<string> {
  const mayRepeat = kind === "reading" || kind === "repeatable";
  if (executions > 1 && !mayRepeat) yield `applied ${executions} times`;
  if (outcome === null) {
    yield "not settled";
  } else if ("value" in outcome) {
    if (outcome.value !== quotaOf(key)) yield `the result of another: ${String(outcome.value)}`;
    if (executions === 0) yield "a result, and not executed";
  } else {
    const { code, message } = outcome.error;
    const isKnown =
      code !== "outcome_unknown" && !/may have (?:been applied|arrived)/.test(message);
    if (code === "kind_mismatch") {
      if (message !== `kind_mismatch: ${key}`) yield `the error of another: ${message}`;
    } else if (!CODES.includes(code)) yield `unexpected: ${message}`;
    else if (isKnown && executions > 0) yield `applied, and told otherwise: ${message}`;
  }
}
