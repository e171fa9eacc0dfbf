/** A semaphore whose calls go by exchanges of frames, without the client around it. */
import { checkOptions, type Text } from "../../wire/edge/argument.ts";
import * as operations from "../../wire/edge/semaphores.ts";
import { Pipeline } from "../calls/pipeline.ts";
import { ExchangeLane } from "../lanes/exchange-lane.ts";
import { settingsOf } from "../options.ts";
import type { Transport } from "../transport/transport.ts";
import { Leases, type LeaseCalls } from "./leases.ts";
import { LeasedSemaphore, SEMAPHORE, type Semaphore, type SemaphoreOptions } from "./semaphore.ts";

/**
 * A semaphore over a way to exchange frames of the edge dialect.
 *
 * @throws ThrottrError `name_invalid`, `maximum_invalid`, `option_invalid`
 */
export function semaphoreOver(
  exchange: NonNullable<Transport["exchange"]>,
  name: Text,
  maximum: number,
  options: SemaphoreOptions,
): Semaphore {
  checkOptions(options, SEMAPHORE, "semaphore");
  const settings = settingsOf({});
  const pipeline = new Pipeline(new ExchangeLane(exchange, settings), settings);
  const calls: LeaseCalls = {
    acquire: (of, wanted) => pipeline.call(operations.acquire(of, wanted), wanted),
    renew: (of, id, renewal, how = {}) => pipeline.call(operations.renew(of, id, renewal), how),
    release: (of, id, how = {}) => pipeline.call(operations.release(of, id), how),
  };
  // Leases of its own: those that a request leaves behind are collected with it.
  return new LeasedSemaphore(name, maximum, options, calls, settings, new Leases());
}
