/**
 * The process that a server's Worker and objects run in, as the system shows it in `/proc`.
 *
 * `wrangler dev` runs two: this one, and a proxy that passes HTTP on to it. Where there is no `/proc`,
 * nothing is known of either.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const SAMPLE_INTERVAL_MS = 10;
const COMMAND = "workerd";
const KIBIBYTE = 1024;
/** State of a listening socket in `/proc/net/tcp`. */
const LISTENING = "0A";

export interface MemoryGrowth {
  readonly beforeBytes: number;
  readonly peakBytes: number;
}

export class Runtime {
  readonly pid: number;

  constructor(pid: number) {
    this.pid = pid;
  }

  /**
   * The runtime of a server; null where the system does not tell.
   *
   * @param groupId process group of the server
   * @param proxyPort HTTP port of the server, which the proxy's command line names
   */
  static find(groupId: number, proxyPort: number): Runtime | null {
    const pid = processesOf(groupId).find((pid) => {
      const words = readText(`/proc/${pid}/cmdline`).split("\0");
      const isProxy = words.some((word) => word.endsWith(`:${proxyPort}`));
      return words[0]!.endsWith(COMMAND) && !isProxy;
    });
    return pid === undefined ? null : new Runtime(pid);
  }

  /** Memory that is resident. */
  get bytes(): number {
    const kibibytes = /^VmRSS:\s*(\d+) kB$/m.exec(readText(`/proc/${this.pid}/status`))?.[1];
    return Number(kibibytes ?? 0) * KIBIBYTE;
  }

  /** Time that its threads have been on a processor; those that have ended are not counted. */
  get processorMs(): number {
    const threads = readOr([], () => readdirSync(`/proc/${this.pid}/task`));
    const nanoseconds = threads.map((thread) =>
      Number.parseInt(readText(`/proc/${this.pid}/task/${thread}/schedstat`) || "0", 10),
    );
    return nanoseconds.reduce((sum, some) => sum + some, 0) / 1e6;
  }

  /** Runs something, and samples memory meanwhile. */
  async sample<T>(run: () => Promise<T>): Promise<{ result: T; growth: MemoryGrowth }> {
    const beforeBytes = this.bytes;
    let peakBytes = beforeBytes;
    const timer = setInterval(() => {
      peakBytes = Math.max(peakBytes, this.bytes);
    }, SAMPLE_INTERVAL_MS);
    try {
      const result = await run();
      return { result, growth: { beforeBytes, peakBytes: Math.max(peakBytes, this.bytes) } };
    } finally {
      clearInterval(timer);
    }
  }

  /** The port where it takes the HTTP that the proxy passes on: its first socket that listens. */
  httpPort(): number | null {
    const ports = listeningPorts();
    const descriptors = readOr([], () => readdirSync(`/proc/${this.pid}/fd`)).map(Number);
    for (const descriptor of descriptors.toSorted((a, b) => a - b)) {
      const link = readOr("", () => readlinkSync(`/proc/${this.pid}/fd/${descriptor}`));
      const port = ports.get(/^socket:\[(\d+)\]$/.exec(link)?.[1] ?? "");
      if (port !== undefined) return port;
    }
    return null;
  }
}

function processesOf(groupId: number): number[] {
  const names = readOr([], () => readdirSync("/proc"));
  return names.map(Number).filter((pid) => {
    if (!Number.isInteger(pid)) return false;
    // pid (command) state parent group …: a command may have spaces.
    const stat = readText(`/proc/${pid}/stat`);
    return Number(stat.slice(stat.lastIndexOf(")")).split(" ")[3]) === groupId;
  });
}

/** Ports that are listened at, by the inode of the socket. */
function listeningPorts(): Map<string, number> {
  const ports = new Map<string, number>();
  for (const line of readText("/proc/net/tcp").split("\n")) {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state !== LISTENING || inode === undefined) continue;
    ports.set(inode, Number.parseInt(local!.split(":")[1]!, 16));
  }
  return ports;
}

/** Empty when the file is not there any more. */
function readText(path: string): string {
  return readOr("", () => readFileSync(path, "latin1"));
}

function readOr<T>(fallback: T, read: () => T): T {
  try {
    return read();
  } catch {
    return fallback;
  }
}
