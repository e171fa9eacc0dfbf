/**
 * Source of the module that lets a client that is still uploading read its refusal.
 *
 * workerd drops at most 64 KiB of a body that the Worker has not read, and closes the connection. The kernel answers what
 * arrives afterwards with a reset, and the client may see that before it has read the refusal. So this module sends the
 * refusal, reads and drops the rest of the body, and only then ends the response. Its bounds are those of what a
 * stranger can hold: beyond them workerd closes the connection at once.
 */

/** Name of the module. */
export const LINGERING_FILE = "lingering.js";

/** The module. `linger` returns the response to send. */
export const LINGERING_MODULE = `
const BYTES_MAX = ${64 << 20};
const TIME_MAX_MS = 10_000;
const REFUSALS_MAX = 100;
const PART_BYTES = ${64 << 10};

let refusals = 0;

export async function linger(request, response, ctx) {
  const isRefusal = response.status >= 400 && response.body !== null;
  if (!isRefusal || !isArriving(request) || refusals >= REFUSALS_MAX) return response;
  const { promise, resolve } = Promise.withResolvers();
  // The runtime would stop this code when the client has gone, and never count down.
  ctx.waitUntil(hold(request, response, resolve));
  return await promise;
}

// A client that sends Expect waits for the first read: it would be asked for a body that is refused already.
function isArriving({ body, bodyUsed, headers }) {
  return body !== null && !body.locked && (bodyUsed || !headers.has("expect"));
}

async function hold(request, response, answer) {
  refusals++;
  try {
    const refusal = new Uint8Array(await response.arrayBuffer());
    // The client has all of a response of known length before the response ends here.
    const { readable, writable } = new FixedLengthStream(refusal.length);
    answer(new Response(readable, response));
    await send(writable.getWriter(), refusal, request);
  } finally {
    refusals--;
  }
}

async function send(writer, refusal, { body, headers }) {
  try {
    await writer.write(refusal);
    await dropInTime(body.getReader({ mode: "byob" }), Number(headers.get("content-length") ?? BYTES_MAX));
  } catch {
    // The client has gone.
  } finally {
    await writer.close().catch(() => {});
  }
}

async function dropInTime(reader, bytes) {
  const { promise: late, resolve } = Promise.withResolvers();
  const timer = setTimeout(resolve, TIME_MAX_MS);
  try {
    await Promise.race([drop(reader, Math.min(bytes, BYTES_MAX)), late]);
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}

// Counts the bytes of a body of known length: after a response, a read at its end waits for the next request.
async function drop(reader, bytes) {
  let part = new Uint8Array(PART_BYTES);
  for (let dropped = 0; dropped < bytes; dropped += part.length) {
    const { done, value } = await reader.read(new Uint8Array(part.buffer));
    if (done) return;
    part = value;
  }
}
`;
