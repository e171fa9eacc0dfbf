/** The HTTP door: a body of frames in, their replies out. */
import { allows, allowsKey, isUnrestricted, scopeName, type Access } from "../objects/access.ts";
import { Dispatch } from "../objects/dispatch.ts";
import type { Frames, Sink } from "../objects/exchange.ts";
import type { Settings } from "../objects/settings.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf } from "../wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  frameLength,
  scanFrames,
} from "../wire/throttr/scanner.ts";
import { Problem, problemOfFailure } from "./problem.ts";

/** Reply bytes per shard that are held in memory; more are streamed. */
const REPLY_BYTES_MAX = 2 << 20;

const HEADERS = { "content-type": "application/octet-stream", "cache-control": "no-store" };

/**
 * Answers a body of frames.
 *
 * @throws Problem when a frame can't be read or is not allowed; then nothing has been applied
 */
export async function answerBody(
  env: Env,
  settings: Settings,
  protocol: Protocol,
  access: Access,
  body: Uint8Array,
): Promise<Response> {
  const frames = framesOf(protocol, body, settings.FRAME_BYTES_MAX);
  assertAllowed(frames, access);
  if (frames.count === 0) return new Response(null, { headers: HEADERS });
  const sink = new ResponseSink();
  new Dispatch(env, access.namespace).send(frames, access, sink, REPLY_BYTES_MAX);
  return await sink.response;
}

function framesOf(protocol: Protocol, bytes: Uint8Array, frameBytesMax: number): Frames {
  const { frames, end, stop } = scanFrames(
    layoutsOf(protocol),
    bytes,
    0,
    bytes.length,
    frameBytesMax,
  );
  if (stop === FRAME_TOO_LARGE) {
    throw new Problem(
      413,
      "frame_too_large",
      `frame at byte ${end}: a frame may have ${frameBytesMax} bytes; nothing was applied`,
    );
  }
  if (stop !== FRAME_INCOMPLETE) {
    const hex = bytes[end]!.toString(16).padStart(2, "0");
    throw new Problem(
      400,
      "request_type_unknown",
      `byte ${end}: 0x${hex} is no request type of dialect ${protocol.dialect}; nothing was applied`,
    );
  }
  if (end < bytes.length) {
    throw new Problem(
      400,
      "body_truncated",
      `the body ends inside the frame that begins at byte ${end}; nothing was applied`,
    );
  }
  return { protocol, bytes, count: frames };
}

function assertAllowed({ protocol, bytes, count }: Frames, access: Access): void {
  if (isUnrestricted(access)) return;
  const layouts = layoutsOf(protocol);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const keyAt = at + layout.headerBytes;
    const keyBytes = bytes[at + layout.keySizeAt]!;
    if (!allows(access, layout, bytes, keyAt, keyBytes)) {
      throw allowsKey(access, bytes, keyAt, keyBytes)
        ? new Problem(
            403,
            "scope_missing",
            `${layout.name} at byte ${at} needs the scope ${scopeName(layout.scope)}; nothing was applied`,
          )
        : new Problem(
            403,
            "prefix_missing",
            `${layout.name} at byte ${at}: its key begins with none of the token's keyPrefixes; nothing was applied`,
          );
    }
    at += frameLength(layouts, bytes, at, bytes.length, Infinity);
  }
}

/** Makes a response of replies: whole when all come with the first calls, else streamed as it is read. */
class ResponseSink implements Sink {
  readonly response: Promise<Response>;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: Problem) => void;
  #held: Uint8Array[] = [];
  #writer: WritableStreamDefaultWriter<Uint8Array> | null = null;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    this.#held.push(replies);
    if (!isLast) return;
    if (this.#writer === null)
      this.#resolve(new Response(new Blob(this.#held), { headers: HEADERS }));
    // The reader going away is its own affair: everything has been applied.
    else
      void this.#drain()
        .then(() => this.#writer!.close())
        .catch(() => {});
  }

  room(): Promise<void> {
    if (this.#writer === null) {
      const { readable, writable } = new IdentityTransformStream();
      this.#writer = writable.getWriter();
      this.#resolve(new Response(readable, { headers: HEADERS }));
    }
    return this.#drain();
  }

  failed(error: unknown): void {
    if (this.#writer === null) this.#reject(problemOfFailure(error));
    else void this.#writer.abort(error).catch(() => {});
  }

  async #drain(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    for (const replies of held) await this.#writer!.write(replies);
  }
}
