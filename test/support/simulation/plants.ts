/**
 * Faults that the simulation must find. Each is planted from outside: in the network, a clock, the shard's disk, what
 * limiters see of their client, or in methods of the ledger, which are put back.
 */
import { ChargeLedger, type ClosedCharge } from "../../../src/engine/charge-ledger.ts";
import { DRAW_RETURNS_MAX } from "../../../src/wire/edge/drawn.ts";
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";
import type { DrawRequest, DrawResult, DrawReturn } from "../../../src/wire/edge/draw.ts";
import { withDraws } from "./draws.ts";
import type { VirtualTime } from "./virtual-time.ts";
import type { Plant } from "./world.ts";

const METHODS = ["cut", "close", "open", "noteState"] as const;
type Methods = Pick<ChargeLedger, (typeof METHODS)[number]>;
/** A fault of the ledger while something runs. */
type LedgerFault = (original: Methods) => Partial<Methods>;

/** Runs something with methods of the ledger replaced. */
export async function withLedgerFault<Result>(
  fault: LedgerFault,
  run: () => Promise<Result>,
): Promise<Result> {
  const ledger = ChargeLedger.prototype;
  const originals = Object.fromEntries(
    METHODS.map((name) => [name, Reflect.get(ledger, name) as unknown]),
  ) as unknown as Methods;
  Object.assign(ledger, fault(originals));
  try {
    return await run();
  } finally {
    Object.assign(ledger, originals);
  }
}

/** Units are given back with the next draw once more. */
export const givenBackAgain: Plant = drawing((draw) => {
  let before: readonly DrawReturn[] = [];
  return async (request) => {
    const { returns = [] } = request;
    const again = before.slice(0, DRAW_RETURNS_MAX - returns.length);
    before = returns;
    return await draw({ ...request, returns: [...returns, ...again] });
  };
});

/** A return that comes again counts again. */
export const returnedTwice: LedgerFault = ({ close }) => {
  const closed = new Map<number | string, ClosedCharge>();
  return {
    close(this: ChargeLedger, key, state, given, nowNs) {
      const found = close.call(this, key, state, given, nowNs);
      if (found !== null) closed.set(given.id, found);
      return found ?? closed.get(given.id) ?? null;
    },
  };
};

/** The ledger does not notice that a state was removed or replaced. */
export const keptOverReset: LedgerFault = ({ cut, close, open, noteState }) => {
  const noted = new WeakMap<ChargeLedger, Map<string, string | null>>();
  const statesOf = (of: ChargeLedger): Map<string, string | null> => {
    let states = noted.get(of);
    if (states === undefined) noted.set(of, (states = new Map()));
    return states;
  };
  return {
    cut(this: ChargeLedger, key, state, limiter, nowNs) {
      cut.call(this, key, statesOf(this).get(key) ?? state, limiter, nowNs);
    },
    close(this: ChargeLedger, key, state, given, nowNs) {
      return close.call(this, key, statesOf(this).get(key) ?? state, given, nowNs);
    },
    open(this: ChargeLedger, key, state, charge, nowNs) {
      statesOf(this).set(key, state);
      open.call(this, key, state, charge, nowNs);
    },
    noteState(this: ChargeLedger, key, state) {
      statesOf(this).set(key, state);
      noteState.call(this, key, state);
    },
  };
};

/** One mark stands for all windows: a charge whose longest window still runs is given back to all of them. */
export const oneMarkForAllWindows: LedgerFault = ({ close }) => ({
  close(this: ChargeLedger, key, state, given, nowNs) {
    const found = close.call(this, key, state, given, nowNs);
    if (found === null || state === null) return found;
    const [mark, present] = [firstStart(found.charged), firstStart(state)];
    return mark === present ? { ...found, charged: state } : found;
  },
});

/** `23|N|name|count|start|…` */
const firstStart = (state: string): string | undefined => state.split("|")[4];

/** A bucket that has refilled meanwhile gets back all that is given. */
export const notCut: LedgerFault = () => ({ cut() {} });

/** Changes what limiters draw. */
function drawing(
  change: (
    draw: (request: DrawRequest) => PromiseLike<DrawResult>,
    time: VirtualTime,
  ) => (request: DrawRequest) => PromiseLike<DrawResult>,
): Plant {
  return {
    wrap: (backend, time) => {
      const draw = change((request) => backend.draw!(request), time);
      const drawMany: NonNullable<LimitBackend["drawMany"]> = async (requests) =>
        await Promise.all(requests.map(draw));
      return withDraws(backend, { draw, drawMany });
    },
  };
}

/** Units live from the moment at which they came, not from the one at which they were asked for. */
export const lifeFromReply: Plant = drawing((draw, time) => async (request) => {
  const sentMs = time.nowMs;
  const drawn = await draw(request);
  return { ...drawn, lifeMs: drawn.lifeMs + (time.nowMs - sentMs) };
});

/** Units are given back that were spent. */
export const returnedAfterSpent: Plant = drawing((draw) => async (request) => {
  const { returns = [] } = request;
  return await draw({
    ...request,
    returns: returns.map(({ draw: number, units }) => ({ draw: number, units: units + 3 })),
  });
});

/** A draw whose answer is lost is sent again. */
export const drawnAgain: Plant = drawing((draw) => async (request) => {
  try {
    return await draw(request);
  } catch {
    return await draw(request);
  }
});

/** A draw arrives twice. */
export const arrivedTwice: Plant = { duplicates: 0.2 };

/** Replies leave before their rows are on the disk. */
export const relaxedDraws: Plant = { isRelaxed: true };

/** The clock of an isolate stands still over the end of its units. */
export const frozenClock: Plant = { isStuck: true };
