/**
 * The claim on a data folder: it lasts as long as `serve`, or the workerd that it started, is running.
 *
 * It has two parts. The lock of `lock.ts` belongs to `serve` alone, and decides between two starts at the same moment. Beside it `serve` listens at a UNIX socket in the folder and hands the listening socket
 * to workerd, which inherits it from the fork on: the kernel accepts connections until both processes are
 * gone. So a start that holds the lock and can still connect knows that a workerd was left behind. Node
 * can't lock a file in a way that a child inherits.
 *
 * The socket also answers which server this is, to `serve --check` and to other starts. A file could not be written on a
 * full disk.
 */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { connect, createServer, Socket, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";

/** Name of the UNIX socket in the folder. */
const SOCKET = "socket";
/** The kernel's limit is 107 bytes on Linux and 103 on macOS. */
const SOCKET_PATH_BYTES_MAX = 100;
/** An orphaned workerd accepts connections and never answers. */
const ANSWER_TIMEOUT_MS = 1000;

const answerSchema = v.object({
  pid: v.number(),
  /** Null before workerd was started, and while it is about to be started again. */
  workerdPid: v.nullable(v.number()),
  /** The server's address for its health; null before it is ready. */
  url: v.nullable(v.string()),
});

/** What the server of a folder answers. */
export type ServerAnswer = v.InferOutput<typeof answerSchema>;

export class Claim {
  /** The answer to each connection. */
  answer: ServerAnswer = { pid: process.pid, workerdPid: null, url: null };
  /** The folder; its socket file is removed at the end. */
  readonly #folder: string;
  /** Listens for as long as this process runs; workerd holds a copy of its descriptor. */
  readonly #server: Server;

  private constructor(folder: string, server: Server) {
    this.#folder = folder;
    this.#server = server;
    server.on("connection", (socket) => {
      // The asker may be gone before it has read the answer.
      socket.on("error", () => {});
      socket.end(JSON.stringify(this.answer));
    });
    // The socket must not keep the process alive: only workerd and the signals do.
    server.unref();
  }

  /**
   * Listens in a folder. The caller holds the folder's lock and has seen that no process listens there:
   * a socket that was left behind is replaced.
   */
  static async stake(folder: string): Promise<Claim> {
    rmSync(join(folder, SOCKET), { force: true });
    const server = createServer();
    await withShortPath(folder, async (path) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      server.once("error", reject);
      server.listen({ path }, resolve);
      await promise;
    });
    return new Claim(folder, server);
  }

  /** File descriptor of the listening socket: the child that is given it holds the folder, too. */
  get fd(): number {
    // Node has no public way to hand a listening socket to a child that is not Node.
    const { _handle: handle } = this.#server as unknown as { _handle: { readonly fd: number } };
    return handle.fd;
  }

  /** Ends the part of this process; the caller still holds the lock. */
  release(): void {
    this.#server.close();
    rmSync(join(this.#folder, SOCKET), { force: true });
  }
}

/** Whether a process holds the folder. */
export async function isHeld(folder: string): Promise<boolean> {
  return await withConnection(folder, async (socket) => socket !== null);
}

/** Asks the server of a folder which one it is; null when no `serve` runs there. */
export async function askServer(folder: string): Promise<ServerAnswer | null> {
  return await withConnection(folder, async (socket) => {
    if (!(socket instanceof Socket)) return null;
    // When `serve` alone was killed the kernel accepts the connection, and no process answers.
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy());
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await new Promise((resolve) => socket.once("close", resolve));
    const answer = v.safeParse(v.pipe(v.string(), v.parseJson(), answerSchema), text);
    return answer.success ? answer.output : null;
  });
}

/** Errors that mean no process listens: the file is missing, not a socket, or left from before a power cut. */
const FREE: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ECONNREFUSED", "ENOTSOCK"]);
/** Errors that mean a process listens, but its queue is full: an orphaned workerd accepts none. */
const CROWDED = "EAGAIN";

/** Connects; null when no process listens, and `CROWDED` when the kernel takes no further connection. */
async function withConnection<T>(
  folder: string,
  use: (connected: Socket | typeof CROWDED | null) => Promise<T>,
): Promise<T> {
  const connected = await withShortPath(folder, async (path) => {
    const { promise, resolve, reject } = Promise.withResolvers<Socket | typeof CROWDED | null>();
    const socket = connect({ path });
    socket.once("connect", () => resolve(socket));
    socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => {
      if (FREE.has(code)) resolve(null);
      else if (code === CROWDED) resolve(code);
      else reject(new Error(`${join(folder, SOCKET)}: ${code}`));
    });
    return await promise;
  });
  if (!(connected instanceof Socket)) return await use(connected);
  // Without a listener a broken connection would end the process.
  connected.on("error", () => {});
  try {
    return await use(connected);
  } finally {
    connected.destroy();
  }
}

/** Paths of UNIX sockets are short: a deep folder is reached over a link in the folder for temporary files. */
async function withShortPath<T>(folder: string, use: (path: string) => Promise<T>): Promise<T> {
  const path = join(folder, SOCKET);
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX) return await use(path);
  // A link is short whatever it points to. It is removed at once: a connection does not need its
  // path.
  const detour = mkdtempSync(join(tmpdir(), "throttr-edge-"));
  try {
    symlinkSync(folder, join(detour, "data"));
    return await use(join(detour, "data", SOCKET));
  } finally {
    rmSync(detour, { recursive: true, force: true });
  }
}
