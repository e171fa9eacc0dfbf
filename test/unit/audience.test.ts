/** Audience: what a channel's group is told of the subscribers that a Hub has. */
import { expect, it, vi } from "vitest";
import { Audience } from "../../src/objects/hub/audience.ts";
import type { Subscriber, Subscription } from "../../src/objects/hub/subscription.ts";

const SUBSCRIPTION: Subscription = { sinceMs: 0, readBytes: 0, writeBytes: 0 };

/** Audiences only tell subscribers apart. */
const newSubscriber = (): Subscriber => ({}) as Subscriber;

/** A group whose answers wait for the test. */
class Bench {
  readonly calls: { kind: "join" | "leave"; answer: PromiseWithResolvers<void> }[] = [];
  emptied = 0;
  readonly audience = new Audience(
    (isJoin) => this.#called(isJoin ? "join" : "leave"),
    () => this.emptied++,
  );

  async #called(kind: "join" | "leave"): Promise<void> {
    const answer = Promise.withResolvers<void>();
    this.calls.push({ kind, answer });
    await answer.promise;
  }

  get kinds(): string {
    return this.calls.map(({ kind }) => kind).join(" ");
  }

  come(subscriber = newSubscriber()): { subscriber: Subscriber; known: Promise<void> | null } {
    this.audience.members.set(subscriber, SUBSCRIPTION);
    return { subscriber, known: this.audience.settle() };
  }

  go(subscriber: Subscriber): Promise<void> | null {
    this.audience.members.delete(subscriber);
    return this.audience.settle();
  }

  async answer(error?: Error): Promise<void> {
    const { answer } = this.calls.at(-1)!;
    if (error === undefined) answer.resolve();
    else answer.reject(error);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

it("a group is told when its first subscriber comes and when its last one goes, and not in between", async () => {
  const bench = new Bench();
  const [first, second] = [bench.come(), bench.come()];
  expect(bench.kinds).toBe("join");
  await bench.answer();
  await Promise.all([first.known, second.known]);
  expect(bench.come(second.subscriber).known).toBeNull();
  expect(bench.go(second.subscriber)).toBeNull();
  const left = bench.go(first.subscriber);
  expect([bench.kinds, bench.emptied]).toEqual(["join leave", 0]);
  await bench.answer();
  await left;
  expect([bench.kinds, bench.emptied]).toEqual(["join leave", 1]);
});

it("subscribers that come and go during a call to the group cost at most one further call", async () => {
  const bench = new Bench();
  const { subscriber } = bench.come();
  for (let i = 0; i < 100; i++) void bench.go(bench.come().subscriber);
  void bench.go(subscriber);
  expect(bench.kinds).toBe("join");
  await bench.answer();
  expect(bench.kinds).toBe("join leave");
  void bench.come();
  await bench.answer();
  expect(bench.kinds).toBe("join leave join");
  await bench.answer();
  expect([bench.calls.length, bench.emptied]).toEqual([3, 0]);
});

it("a restored audience does not tell its group again what the group knows", async () => {
  const known = new Bench();
  const subscriber = newSubscriber();
  known.audience.add(subscriber, SUBSCRIPTION, true);
  known.audience.add(newSubscriber(), SUBSCRIPTION, false);
  expect([known.audience.settle(), known.calls.length]).toEqual([null, 0]);
  const unknown = new Bench();
  unknown.audience.add(subscriber, SUBSCRIPTION, false);
  expect(unknown.audience.settle()).not.toBeNull();
  expect(unknown.kinds).toBe("join");
});

it("a group that heard of no subscribers is told again when the next subscriber comes", async () => {
  const bench = new Bench();
  const { subscriber } = bench.come();
  await bench.answer();
  expect(bench.audience.confirm()).toBe(true);
  bench.audience.members.delete(subscriber);
  expect(bench.audience.confirm()).toBe(false);
  expect(bench.audience.settle()).toBeNull();
  bench.come();
  expect(bench.kinds).toBe("join join");
});

it("a join that a denial overtook is repeated", async () => {
  const bench = new Bench();
  const { subscriber } = bench.come();
  bench.audience.members.delete(subscriber);
  expect(bench.audience.confirm()).toBe(false);
  bench.audience.members.set(subscriber, SUBSCRIPTION);
  await bench.answer();
  expect(bench.kinds).toBe("join join");
  await bench.answer();
  expect(bench.come().known).toBeNull();
});

it("a failed join fails those who waited for it, and is retried for a subscriber that came meanwhile", async () => {
  const bench = new Bench();
  const refused = new Error("group_full");
  const { subscriber, known } = bench.come();
  await Promise.all([expect(known).rejects.toBe(refused), bench.answer(refused)]);
  void bench.go(subscriber);
  expect(bench.emptied).toBe(1);

  const [first, second] = [bench.come(), bench.come()];
  await bench.answer(refused);
  expect(bench.kinds).toBe("join join join");
  await bench.answer();
  await Promise.all([first.known, second.known]);
});

it("a subscriber that is restored during the call by which its Hub leaves the group does not keep the next subscriber from joining", async () => {
  const bench = new Bench();
  const { subscriber } = bench.come();
  await bench.answer();
  void bench.go(subscriber);
  const { known } = bench.come();
  // Its socket closed while the Hub slept, and the event of that comes only now.
  const late = newSubscriber();
  bench.audience.add(late, SUBSCRIPTION, true);
  void bench.go(late);
  await bench.answer();
  expect(bench.kinds).toBe("join leave join");
  await bench.answer();
  await known;
});

it("a failed leave is logged, and the group is told again when the next subscriber comes", async () => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  const bench = new Bench();
  const { subscriber } = bench.come();
  await bench.answer();
  const left = bench.go(subscriber);
  await bench.answer(new Error("reset"));
  await left;
  expect(warned).toHaveBeenCalledExactlyOnceWith(
    JSON.stringify({ event: "leave_failed", error: "Error: reset" }),
  );
  warned.mockRestore();
  expect(bench.emptied).toBe(1);
  bench.come();
  expect(bench.kinds).toBe("join leave join");
});

it("an audience without a group to tell is dropped with its last subscriber", () => {
  let emptied = 0;
  const audience = new Audience(null, () => emptied++);
  const subscriber = newSubscriber();
  audience.members.set(subscriber, SUBSCRIPTION);
  expect([audience.settle(), emptied]).toEqual([null, 0]);
  audience.members.delete(subscriber);
  expect([audience.settle(), emptied]).toEqual([null, 1]);
});
