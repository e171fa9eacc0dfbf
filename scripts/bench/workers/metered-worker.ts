/**
 * The server as it is, for the benchmark, with its shards' requests and rows counted; and the platform's
 * limit: the two calls that a check takes, with nothing in them.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import { Shard as PlainShard } from "../../../src/objects/shard/shard.ts";
import type { LimitResult } from "../../../src/wire/edge/limit.ts";
import type { LimitRequest } from "../../../src/wire/edge/operations.ts";
import { BUCKET, type MeterFigures } from "./check-load.ts";
import { meterRequest, meterRows, readMeter } from "./meter.ts";

export { Channel, Directory, Hub, Throttr } from "../../../src/worker/index.ts";
export { default } from "../../../src/worker/index.ts";

export class Shard extends PlainShard {
  constructor(ctx: DurableObjectState, env: Env) {
    meterRows(ctx.storage);
    super(ctx, env);
  }

  override async apply(batch: Uint8Array): Promise<Uint8Array> {
    meterRequest();
    return await super.apply(batch);
  }

  /** Gives back what it is given. */
  nothing(bytes: Uint8Array): Uint8Array {
    return bytes;
  }

  override async alarm(): Promise<void> {
    meterRequest();
    await super.alarm();
  }
}

export class Meter extends WorkerEntrypoint {
  read(): MeterFigures {
    return readMeter();
  }
}

interface BareEnv {
  readonly SHARD: DurableObjectNamespace<Shard>;
}

/** A shard of no namespace. */
const BARE_SHARD = "bare/0";
/** About as many bytes as a check takes to a shard, and back. */
const CHECK_BYTES = new Uint8Array(80);

export class Bare extends WorkerEntrypoint<BareEnv> {
  /** Answers as the server would. */
  async limit({ cost = 1 }: LimitRequest): Promise<LimitResult> {
    await this.env.SHARD.getByName(BARE_SHARD).nothing(CHECK_BYTES);
    const quota = { limit: BUCKET.burst, remaining: BUCKET.burst - cost, reset: 0 };
    return {
      success: true,
      ...quota,
      retryAfterMs: 0,
      quotas: { default: { allowed: true, ...quota } },
    };
  }
}
