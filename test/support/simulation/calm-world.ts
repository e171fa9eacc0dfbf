/** A world in which nothing goes wrong: messages take their time, and all of them arrive. */
import { configurationOf, type LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { randomOf } from "../rate-limits/random.ts";
import { MachineClock } from "./clocks.ts";
import { History } from "./history.ts";
import { SimulatedIsolate, type LimiterManner } from "./isolate.ts";
import { needsStates } from "./judges.ts";
import { SimulatedNetwork, type NetworkQuality } from "./network.ts";
import { SimulatedShard } from "./shard.ts";
import { VirtualTime } from "./virtual-time.ts";

/** The longest way of a message, and the longest time that a commit takes, ms. */
const DELAY_MS = 10;
const QUALITY: NetworkQuality = {
  delayMs: DELAY_MS,
  lateMs: 0,
  unsent: 0,
  lostRequest: 0,
  lateRequest: 0,
  lostReply: 0,
  lateReply: 0,
};

export interface CalmWorld {
  readonly time: VirtualTime;
  readonly random: () => number;
  readonly history: History;
  readonly isolates: readonly SimulatedIsolate[];
  /** When the shard was called, ascending. */
  readonly callsAtMs: readonly number[];
}

export function calmWorld(options: {
  readonly seed: number;
  readonly strategy: LimitStrategy;
  readonly isolates: number;
}): CalmWorld {
  const { seed, strategy } = options;
  const configuration = configurationOf(strategy);
  const random = randomOf(seed);
  const time = new VirtualTime();
  const history = new History(configuration);
  const callsAtMs: number[] = [];
  const shard = new SimulatedShard({
    time,
    random,
    clock: new MachineClock(time, 0, 0),
    history,
    needsStates: needsStates(configuration),
    diskMs: DELAY_MS,
    onCall: () => callsAtMs.push(time.nowMs),
  });
  const network = new SimulatedNetwork({ time, random, quality: QUALITY, history, shard });
  const manner: LimiterManner = {
    strategy,
    leaseMs: 1000,
    keysMax: 10_000,
    timeoutMs: 5000,
    onError: undefined,
    isShadow: false,
    isPerRequest: false,
    hasWaitUntil: true,
  };
  const isolates = Array.from({ length: options.isolates }, (_, id) => {
    const machine = new MachineClock(time, random() * 1000, 0);
    return new SimulatedIsolate({ id, time, random, machine, network, history, manner });
  });
  return { time, random, history, isolates, callsAtMs };
}
