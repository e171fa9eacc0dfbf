/**
 * Stubs: how one life calls an object. What a stub sends arrives in order. Once a life that it has called is over, every call
 * fails that is not answered, and every later one by the same stub; a new stub finds the next life.
 */
import { clone, cloneError } from "./clone.ts";
import { SimRequest, SimResponse, type SimRequestInit } from "./net/messages.ts";
import { endOf } from "./net/web-socket.ts";
import { resultOf, type ObjectLife, type SimulatedObject } from "./object.ts";
import { lostConnection, type RunningLife } from "./running-life.ts";
import type { Site } from "./site.ts";

interface Pending {
  readonly onTaken: (life: ObjectLife) => void;
  readonly settle: (outcome: { value: unknown } | { error: Error }) => void;
}

/** What an object refuses a call with when it has too much to do. */
const overloaded = (): Error =>
  Object.assign(new Error("Durable Object is overloaded. Too many requests queued."), {
    overloaded: true,
    retryable: false,
    remote: true,
  });

class Channel {
  readonly #site: Site;
  readonly #caller: RunningLife;
  readonly #target: SimulatedObject;
  /** The life that the first call has reached. */
  #life: ObjectLife | null = null;
  #broken: Error | null = null;
  #lastArrivalMs = 0;
  #lastAnswerMs = 0;

  constructor(site: Site, caller: RunningLife, target: SimulatedObject) {
    this.#site = site;
    this.#caller = caller;
    this.#target = target;
  }

  /**
   * @param invoke runs in an event of the object
   * @param copy copies an answer for the caller
   */
  call<T>(
    method: string,
    parameters: readonly unknown[],
    invoke: (life: ObjectLife) => unknown,
    copy: (value: unknown, caller: RunningLife) => T,
  ): Promise<T> {
    const caller = this.#caller;
    caller.call(`call ${this.#target.className}.${method}`);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const answerLater = caller.planner();
    const object = this.#target;
    const watch = object.watcher.onCall?.({ object, caller, method, parameters });
    let isSettled = false;
    const pending: Pending = {
      onTaken: (life) => watch?.onTaken(life),
      settle: (outcome) => {
        // A life that crashes as it takes the call says so twice.
        if (isSettled) return;
        isSettled = true;
        const delayMs = this.#nextAnswerMs();
        watch?.onAnswer("error" in outcome, this.#site.time.nowMs + delayMs);
        answerLater(delayMs, `answer of ${method}`, () => {
          if ("error" in outcome) reject(outcome.error);
          else resolve(outcome.value as T);
        });
      },
    };
    caller.dispatch(() => this.#send(method, invoke, copy, pending));
    return promise;
  }

  #send(
    method: string,
    invoke: (life: ObjectLife) => unknown,
    copy: (value: unknown, caller: RunningLife) => unknown,
    pending: Pending,
  ): void {
    const { time, faults } = this.#site;
    if (this.#broken !== null) return pending.settle({ error: this.#broken });
    const fate = faults.callFate(this.#target.className, method);
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, time.nowMs + faults.latencyMs("object"));
    if (fate === "lost" || fate === "overloaded") {
      this.#site.trace.note(`call ${fate}`, this.#caller.name, this.#target.name, method);
      time.at(this.#lastArrivalMs, () => {
        if (fate === "lost") this.#break(lostConnection());
        pending.settle({ error: fate === "lost" ? lostConnection() : overloaded() });
      });
      return;
    }
    const arrive = (): void => this.#arrive(method, invoke, copy, pending, fate === "answer lost");
    if (fate !== "caller ended") {
      time.at(this.#lastArrivalMs, arrive);
      return;
    }
    this.#target.late.hold(method, this.#caller, arrive);
    time.after(0, () => this.#caller.crash("its call is on its way"));
  }

  #arrive(
    method: string,
    invoke: (life: ObjectLife) => unknown,
    copy: (value: unknown, caller: RunningLife) => unknown,
    { onTaken, settle }: Pending,
    isAnswerLost: boolean,
  ): void {
    if (this.#broken !== null) return settle({ error: this.#broken });
    const life = this.#connect();
    if (life === null) return settle({ error: this.#broken! });
    const end = life.watch((error) => settle({ error }));
    life.receive({
      what: method,
      run: () => {
        onTaken(life);
        this.#target.late.noteTaken(method, this.#caller);
        const give = (outcome: { value: unknown } | { error: Error }): void => {
          life.whenDurable(() => {
            end();
            if (isAnswerLost) this.#loseAnswer(method, settle, outcome);
            else settle(outcome);
          });
        };
        resultOf(() => invoke(life)).then(
          (value) => {
            if (!life.isOver) give(tried(() => copy(value, this.#caller)));
          },
          (error: unknown) => {
            if (life.isOver) return;
            this.#site.onError(life, `${this.#target.className}.${method}`, error);
            give({ error: cloneError(error) });
          },
        );
      },
      fail: (error) => settle({ error }),
    });
  }

  #loseAnswer(
    method: string,
    settle: Pending["settle"],
    outcome: { value: unknown } | { error: Error },
  ): void {
    if ("value" in outcome && outcome.value instanceof SimResponse) dropSocketOf(outcome.value);
    this.#site.trace.note("answer lost", this.#caller.name, this.#target.name, method);
    this.#break(lostConnection());
    settle({ error: lostConnection() });
  }

  /** The life at the other end. One that was put to sleep is followed by the next; after any other end the stub is of no use. */
  #connect(): ObjectLife | null {
    if (this.#life?.isOver === false) return this.#life;
    const life = this.#target.wake();
    if (life.isOver) {
      this.#break(life.reason ?? lostConnection());
      return null;
    }
    this.#life = life;
    if (life.release !== this.#caller.release) this.#site.faults.meet(this.#caller, life);
    life.onEnd((error) => this.#break(error));
    return life;
  }

  #break(error: Error): void {
    this.#broken ??= error;
  }

  /** In how many ms the next answer arrives: answers of one stub keep the order in which they left. */
  #nextAnswerMs(): number {
    const { time, faults } = this.#site;
    this.#lastAnswerMs = Math.max(this.#lastAnswerMs, time.nowMs + faults.latencyMs("object"));
    return this.#lastAnswerMs - time.nowMs;
  }
}

/** A WebSocket that never reaches its peer. */
function dropSocketOf({ webSocket }: SimResponse): void {
  if (webSocket !== null) endOf(webSocket).abandon();
}

function tried<T>(make: () => T): { value: T } | { error: Error } {
  try {
    return { value: make() };
  } catch (error) {
    return { error: error as Error };
  }
}

/** Names that a stub has of its own, or must not have. */
const NO_METHODS = new Set<string | symbol>(["then", "catch", "finally", "toJSON"]);

/** What production code gets from `getByName`. */
export function makeStub(site: Site, caller: RunningLife, target: SimulatedObject): object {
  const channel = new Channel(site, caller, target);
  const own = {
    id: { name: target.name, toString: () => target.name },
    name: target.name,
    fetch: (input: string | SimRequest, init?: SimRequestInit) => {
      const request = site.network.passRequest(new SimRequest(input, init));
      return channel.call(
        "fetch",
        [],
        (life) => life.instance!.fetch!(request),
        (response, to) => site.network.passResponse(response as SimResponse, to),
      );
    },
  };
  return new Proxy(own, {
    get(_, property) {
      if (property in own) return own[property as keyof typeof own];
      if (typeof property === "symbol" || NO_METHODS.has(property)) return undefined;
      return (...parameters: readonly unknown[]) => {
        const copied = clone(parameters);
        return channel.call(
          property,
          copied,
          (life) => invokeMethod(life, property, copied),
          (value) => clone(value),
        );
      };
    },
  });
}

function invokeMethod(life: ObjectLife, name: string, parameters: readonly unknown[]): unknown {
  const { instance } = life;
  const method: unknown = Reflect.get(instance!, name);
  const isOffered = typeof method === "function" && !Object.hasOwn(instance!, name);
  if (!isOffered) throw new TypeError(`The RPC receiver does not implement the method "${name}".`);
  return Reflect.apply(method, instance, parameters);
}
