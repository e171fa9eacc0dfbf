/**
 * The operations RESERVE and SETTLE: an estimate that is charged at once, and corrected when the real cost is known.
 *
 *     RESERVE = id 16, ttl u32 ms, cost f64, configuration; reply = decision
 *     SETTLE  = id 16, cost f64, configuration; reply = decision, settled f64
 *
 * Little-endian. Both may be sent again, RESERVE within its ttl: an id is charged once, and settled once.
 */
import { ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import { bytesOf, integerOf, isObject, objectOf } from "./argument.ts";
import { Command } from "./command.ts";
import { readDecision } from "./decision.ts";
import { checked, limitOf, limitResultOf, type LimitResult } from "./limit.ts";
import type { LimitRequest } from "./limits.ts";
import { commandOf, type CommandReply, type Operation } from "./operation.ts";
import { RESERVE_TTL_MS, RESERVE_TTL_MS_MAX, RESERVE_TTL_MS_MIN } from "./reservation-bounds.ts";
import { newUuid, uuidBytes, type FillRandom } from "./uuid.ts";

/** An estimate, and how long it may be corrected. */
export interface ReserveRequest extends Pick<LimitRequest, "name" | "key" | "strategy"> {
  /** The estimate, an integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
  /** How long it may be settled, in ms, 1,000 to 86,400,000; 60,000 unless given. After that it counts as spent. */
  readonly ttlMs?: number | undefined;
  /**
   * A UUID; a new one unless given. The same call with the same id is charged once: so it may be made again when its
   * answer was lost.
   */
  readonly id?: string | undefined;
}

/** What a reservation was answered. */
export interface ReserveResult extends LimitResult {
  /** Names the reservation, to settle it; null after a refusal, which reserves nothing. */
  readonly id: string | null;
}

/** The real cost of what was reserved. */
export interface SettleRequest extends Pick<LimitRequest, "name" | "key" | "strategy"> {
  /** `id` of the reservation. */
  readonly id: string;
  /** An integer from 0, which releases all that was reserved. More than was reserved is charged, too: see `settle`. */
  readonly cost: number;
}

/** What the limit says after a reservation was settled, to a cost of 1. */
export interface SettleResult extends LimitResult {
  /** What the reservation was settled with: the cost of the first call that settled it. */
  readonly settled: number;
}

const scratch = new ByteWriter(256);

export function reserve(request: ReserveRequest): Operation<ReserveResult> {
  const { cost = 1, ttlMs = RESERVE_TTL_MS } = objectOf(
    request,
    "request",
    "name, key and strategy",
  );
  integerOf(cost, "cost", 1, Number.MAX_SAFE_INTEGER);
  integerOf(ttlMs, "ttlMs", RESERVE_TTL_MS_MIN, RESERVE_TTL_MS_MAX, "ttl_invalid");
  const head = (out: ByteWriter): void => {
    out.u32(ttlMs);
    out.f64(cost);
  };
  const operation = onReservation(Command.reserve, request, head, (result) => ({
    ...result,
    id: result.success ? request.id! : null,
  }));
  return { ...operation, repeatableMs: ttlMs };
}

export function settle(request: SettleRequest): Operation<SettleResult> {
  const { cost } = objectOf(request, "request", "name, key, strategy, id and cost");
  integerOf(cost, "cost", 0, Number.MAX_SAFE_INTEGER);
  const head = (out: ByteWriter): void => out.f64(cost);
  return onReservation(Command.settle, request, head, (result, { view }) => ({
    ...result,
    settled: view.getFloat64(view.byteLength - SETTLED_BYTES, true),
  }));
}

/** Behind the decision of a SETTLE. */
const SETTLED_BYTES = 8;

/** @param head writes what stands between the id and the configuration */
function onReservation<Result>(
  type: number,
  request: Pick<ReserveRequest, "name" | "key" | "strategy" | "id">,
  head: (out: ByteWriter) => void,
  resultOf: (result: LimitResult, reply: CommandReply) => Result,
): Operation<Result> {
  const { configuration, key } = checked(() => limitOf(request));
  const id = uuidBytes(request.id, "id", "reservation_invalid");
  const body = (out: ByteWriter): void => {
    out.copy(id);
    head(out);
    writeConfiguration(out, configuration);
  };
  const read = (reply: CommandReply): Result =>
    resultOf(limitResultOf(configuration, readDecision(reply.view, 0)), reply);
  return commandOf(scratch, { type, key: bytesOf(key, "key"), isRepeatable: true, body }, read);
}

/** A request with an id: a new one where there is none. What is not an object stays as it is. */
export function withReservationId<Request extends Pick<ReserveRequest, "id">>(
  request: Request,
  fill: FillRandom,
): Request {
  if (!isObject(request)) return request;
  return { ...request, id: request.id ?? newUuid(fill) };
}
