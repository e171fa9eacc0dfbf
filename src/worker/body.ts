/**
 * Reads the bodies of requests.
 *
 * A body arrives at the pace of its client and is held in memory until it is whole. So it must keep arriving, and the
 * bytes of all unfinished bodies of an isolate are bounded together: an isolate has 128 MB for all its requests.
 */
import { variableName } from "../base/deployment.ts";
import type { MiddlewareHandler } from "hono";
import { stopwatchMs } from "../base/clock.ts";
import { readSettings, type Settings } from "../base/settings.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { App } from "./app.ts";
import { inOrder } from "./in-order.ts";
import { assertInForce } from "./revocations.ts";
import { BODY_PART_BYTES, BODY_ROOM_BYTES } from "../engine/sizes.ts";

/** How many timeouts a body may take in all, beside the time for its bytes. */
const STALLS_MAX = 4;
/** What a body must have beyond that time, in bytes a ms: 16 KiB a second. */
const BYTES_PER_MS_MIN = 16;

/** Refusals of a body that may still be arriving, at a moment when no read of it is under way. */
const REFUSALS: ReadonlySet<string> = new Set(["body_too_large", "bodies_max"]);

/** The variable that bounds a body: a message in a body has the limit of a frame. */
type LimitVariable = "BODY_BYTES_MAX" | "FRAME_BYTES_MAX";

/** Bytes received of unfinished bodies in this isolate, without the first part of each. */
let unfinishedBytes = 0;

/**
 * Reads the body of a request into `c.var.body`. The access in `c.var.access` must still be in force at its end.
 *
 * @param variable the variable with its limit
 * @param what the body's name in messages, such as `a message`
 * @throws ThrottrError `body_too_large`, 408 `body_timeout`, 400 `body_aborted`, 503 `bodies_max`; as `assertInForce`
 */
export function readBody(variable: LimitVariable, what: string): MiddlewareHandler<App> {
  return async (c, next) => {
    const settings = readSettings(c.env);
    const bytesMax = settings[variable];
    const announced = Number(c.req.header("content-length") ?? 0);
    if (announced > bytesMax) throw tooLarge(what, variable, bytesMax);
    const { body } = c.req.raw;
    if (body === null) {
      c.set("body", new Uint8Array(0));
      return await next();
    }
    // The bytes of a body that is being read are counted.
    const whole = inOrder(c.executionCtx, readWhole(body, what, variable, settings));
    c.set("body", await whole);
    await assertInForce(c.env, c.executionCtx, c.var.access);
    await next();
  };
}

/**
 * Reads all of a body. Only bytes that have come are counted, so that a client cannot take memory from others by
 * announcing a large body.
 *
 * @throws ThrottrError as `readBody`
 */
async function readWhole(
  body: ReadableStream<Uint8Array>,
  what: string,
  variable: LimitVariable,
  { [variable]: bytesMax, BODIES_BYTES_MAX, STALL_TIMEOUT_MS }: Settings,
): Promise<Uint8Array> {
  const source = sourceOf(body);
  let buffer = new ArrayBuffer(BODY_PART_BYTES);
  let filled = 0;
  let counted = 0;
  let tookMs = 0;
  try {
    for (;;) {
      const sinceMs = stopwatchMs();
      const part = await inTime(source.read(buffer, filled), what, STALL_TIMEOUT_MS);
      // Not more than it can have taken, where the clock was set.
      tookMs += Math.min(Math.max(0, stopwatchMs() - sinceMs), STALL_TIMEOUT_MS);
      if (tookMs > STALLS_MAX * STALL_TIMEOUT_MS + filled / BYTES_PER_MS_MIN) {
        throw tooSlow(what, `after ${tookMs} ms it had ${filled} bytes`);
      }
      const bytes = part.filled - filled;
      ({ buffer, filled } = part);
      if (filled > bytesMax) throw tooLarge(what, variable, bytesMax);
      if (bytes < BODY_PART_BYTES) return new Uint8Array(buffer.transfer(filled));
      unfinishedBytes -= counted;
      counted = filled - BODY_PART_BYTES;
      unfinishedBytes += counted;
      if (unfinishedBytes > BODIES_BYTES_MAX) throw bodiesMax(what, BODIES_BYTES_MAX);
      // Moves the bytes without a second buffer where the runtime can, so growing need not take twice the memory.
      buffer = buffer.transfer(roomAfter(filled, buffer.byteLength, bytesMax));
    }
  } catch (error) {
    if (error instanceof ThrottrError && REFUSALS.has(error.code)) source.leave();
    else source.cancel(error);
    throw error;
  } finally {
    unfinishedBytes -= counted;
  }
}

/** The next size of the buffer. It grows with the bytes received: `content-length` is only what a client claims. */
function roomAfter(filled: number, size: number, bytesMax: number): number {
  const needed = filled + BODY_PART_BYTES;
  if (needed <= size) return size;
  return Math.max(
    needed,
    Math.min(Math.max(2 * filled, BODY_ROOM_BYTES), bytesMax + BODY_PART_BYTES),
  );
}

/** A buffer and how much of it is filled. A read detaches the buffer that it was given, so each has a new one. */
interface Part {
  readonly buffer: ArrayBuffer;
  readonly filled: number;
}

/** A source of a body's bytes. */
interface Source {
  /**
   * Appends at least `BODY_PART_BYTES` to a buffer; fewer at the end of the body.
   *
   * @param buffer is consumed; the returned part has the one to go on with
   * @throws Error if the body was cut off
   */
  read(buffer: ArrayBuffer, filled: number): Promise<Part>;
  /**
   * Ends the read between two parts. The runtime drops what still arrives; `serve` drops more of it than workerd would, so
   * that the client reads the refusal (`lingering.ts`).
   */
  leave(): void;
  /** Ends the read; a body that has failed already makes no second failure of it. */
  cancel(reason: unknown): void;
}

/** Streams of the runtime read into a buffer; streams made in JavaScript, as over a binding, give chunks only. */
function sourceOf(body: ReadableStream<Uint8Array>): Source {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    return chunksOf(body);
  }
  return {
    async read(buffer, filled) {
      const view = new Uint8Array(buffer, filled);
      const { value } = await reader.readAtLeast(BODY_PART_BYTES, view);
      return { buffer: value!.buffer as ArrayBuffer, filled: filled + value!.length };
    },
    leave: () => reader.releaseLock(),
    cancel: (reason) => void reader.cancel(reason).catch(() => {}),
  };
}

/** A source for streams without BYOB readers. A chunk may have any length, so the buffer grows to take it whole. */
function chunksOf(body: ReadableStream<Uint8Array>): Source {
  const reader = body.getReader();
  const cancel = (reason?: unknown): void => void reader.cancel(reason).catch(() => {});
  return {
    // What makes the stream in JavaScript can stop then.
    leave: cancel,
    cancel,
    async read(buffer, filled) {
      const enough = filled + BODY_PART_BYTES;
      let end = filled;
      while (end < enough) {
        const { done, value } = await reader.read();
        if (done) break;
        if (end + value.length > buffer.byteLength) buffer = buffer.transfer(end + value.length);
        new Uint8Array(buffer).set(value, end);
        end += value.length;
      }
      return { buffer, filled: end };
    },
  };
}

/** @throws ThrottrError 408, or 400 where the body has ended before its end */
async function inTime(part: Promise<Part>, what: string, timeoutMs: number): Promise<Part> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(tooSlow(what, `fewer than ${BODY_PART_BYTES} bytes within ${timeoutMs} ms`));
  }, timeoutMs);
  try {
    return await Promise.race([part, late]);
  } catch (error) {
    if (error instanceof ThrottrError) throw error;
    throw new ThrottrError("body_aborted", `${what} was cut off before its end: ${String(error)}`);
  } finally {
    clearTimeout(timer);
  }
}

function tooSlow(what: string, how: string): ThrottrError {
  return new ThrottrError(
    "body_timeout",
    `${what} arrived too slowly: ${how} (${variableName("STALL_TIMEOUT_MS")})`,
  );
}

function tooLarge(what: string, variable: LimitVariable, bytesMax: number): ThrottrError {
  const limit = `${bytesMax} bytes (${variableName(variable)})`;
  return new ThrottrError("body_too_large", `${what} may have at most ${limit}`);
}

/** 503, with `Retry-After`: it is about the bodies of all clients, and some of them end soon. */
function bodiesMax(what: string, bytesMax: number): ThrottrError {
  return new ThrottrError(
    "bodies_max",
    `no memory is left for ${what} of more than ${BODY_PART_BYTES} bytes: unfinished bodies already take up ${bytesMax} bytes (${variableName("BODIES_BYTES_MAX")}); try again`,
  );
}
