/**
 * The folder where a server keeps its data, for one server at a time.
 *
 *     throttr-edge.json   marks the folder as one of ours
 *     lock, socket        held while a server runs, or a workerd whose server was killed
 *     config.capnp        what workerd was last started with; secrets are not in it
 *     reserve             disk space that a start on a full disk frees for workerd
 *     objects/            one SQLite file for each object, by the classes' unique keys
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { join, resolve, sep } from "node:path";
import { UsageError } from "../failure.ts";
import { createFolder, textIfThere } from "../files.ts";
import { askServer, Claim, isHeld, type ServerAnswer } from "./claim.ts";
import { CONFIGURATION_FILE } from "./configuration.ts";
import { tryLock, type Lock } from "./lock.ts";
import { endOrphans, OLD_RECORD, refuseOldOrphan } from "./orphans.ts";

/** Only the owner may enter: the files hold the data of all namespaces. */
const FOLDER_MODE = 0o700;
/** Only the owner may read. */
const FILE_MODE = 0o600;
/** Marks a folder as ours, with the format of its contents. */
const MARKER = "throttr-edge.json";
/** The SQLite database whose lock `lock.ts` holds. */
const LOCK = "lock";
/** Folder that workerd writes to; nothing else of the folder is given to it. */
const OBJECTS = "objects";
/** Bytes that a start on a full disk gives back. */
const RESERVE = "reserve";
/** SQLite writes 32 KiB of shared memory for each file that workerd opens, before it can read it. */
const RESERVE_BYTES = 4 << 20;
/**
 * The version of the folder. A release that changes the layout raises it, so older ones refuse the
 * folder.
 */
const FORMAT = 1;
/** What a new folder may contain before it is ours: the root of a file system has `lost+found`. */
const HARMLESS: readonly string[] = ["lost+found", LOCK, draftOf(MARKER)];

export class DataFolder {
  /** Absolute path of the folder. */
  readonly path: string;
  /** Ids of orphaned workerd processes, whose server was killed, and which were ended now. */
  readonly endedOrphans: readonly number[];
  /** The folder itself, opened: workerd inherits it, see `orphans.ts`. */
  readonly fd: number;
  /** Held by this process alone; decides between two starts at once. */
  readonly #lock: Lock;
  /** Held by this process and workerd; tells a start that an orphan still writes. */
  readonly #claim: Claim;

  private constructor(path: string, lock: Lock, claim: Claim, endedOrphans: readonly number[]) {
    this.path = path;
    this.endedOrphans = endedOrphans;
    // A folder can be opened for reading like a file. Its descriptor stands for the folder under
    // any path.
    this.fd = openSync(path, "r");
    this.#lock = lock;
    this.#claim = claim;
  }

  /**
   * Claims the folder, and creates it if it is missing. Ends a workerd that a killed server left behind.
   *
   * @param drainTimeoutMs how long that workerd may take to answer the requests under way
   * @param signal aborted when the start is to stop: that workerd then goes on without this process
   * @returns null when the signal was aborted while that workerd held the folder
   * @throws UsageError `data_foreign` for a folder of something else, `data_unknown` for one of a newer
   * release, `data_in_use` while another server has it, `data_unusable` when the system refuses
   */
  static async open(
    path: string,
    drainTimeoutMs: number,
    signal: AbortSignal,
  ): Promise<DataFolder | null> {
    try {
      refuseForeign(path);
      createFolder(path, FOLDER_MODE);
      const lock = await lockOf(path);
      try {
        const data = await DataFolder.#take(path, lock, drainTimeoutMs, signal);
        if (data === null) lock.release();
        return data;
      } catch (error) {
        lock.release();
        throw error;
      }
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError("data_unusable", `--data: ${path}: ${(error as Error).message}`);
    }
  }

  /** Takes a folder whose lock is held: ends orphans, marks it, and makes its folders. Null as of `open`. */
  static async #take(
    path: string,
    lock: Lock,
    drainTimeoutMs: number,
    signal: AbortSignal,
  ): Promise<DataFolder | null> {
    // Check again: another server may have claimed the folder before we had the lock.
    refuseForeign(path);
    refuseOldOrphan(path);
    const ended = (await isHeld(path)) ? await endOrphans(path, drainTimeoutMs, signal) : [];
    if (ended === null) return null;
    // A record of release 0.4 whose process has ended.
    rmSync(join(path, OLD_RECORD), { force: true });
    // The marker comes first: a folder with other files and without it would not be recognized as ours.
    const marker = join(path, MARKER);
    if (!existsSync(marker)) replaceFile(marker, `${JSON.stringify({ format: FORMAT })}\n`);
    keepReserve(join(path, RESERVE), freeBytesOf(path));
    createFolder(join(path, OBJECTS), FOLDER_MODE);
    return new DataFolder(path, lock, await Claim.stake(path), ended);
  }

  /** Folder of the objects' files. */
  get objectsFolder(): string {
    return join(this.path, OBJECTS);
  }

  /** File descriptor of the claim: workerd inherits it, and holds the folder with it. */
  get claimFd(): number {
    return this.#claim.fd;
  }

  /**
   * Stores the configuration for workerd, and returns the path of the file.
   *
   * @throws UsageError `data_unusable` where the disk is full, and the text differs from the stored one
   */
  storeConfiguration(text: string): string {
    const path = join(this.path, CONFIGURATION_FILE);
    try {
      if (textIfThere(path) !== text) replaceFile(path, text);
      return path;
    } catch (error) {
      throw new UsageError("data_unusable", `--data: ${this.path}: ${(error as Error).message}`);
    }
  }

  /** Sets the answer to `serve --check`, and to starts that find the folder in use. */
  describe(answer: Omit<ServerAnswer, "pid">): void {
    this.#claim.answer = { pid: process.pid, ...answer };
  }

  /** Releases the folder, after workerd has ended. */
  close(): void {
    closeSync(this.fd);
    this.#claim.release();
    this.#lock.release();
  }
}

/** Refuses a folder that holds other files, or the data of a newer release. Never writes to it. */
function refuseForeign(path: string): void {
  // wrangler's own local data has the same files; two servers on them would destroy each other's
  // databases.
  if (resolve(path).split(sep).includes(".wrangler")) {
    throw new UsageError("data_foreign", `--data: ${path} is where wrangler keeps its own data`);
  }
  if (!existsSync(path)) return;
  const marker = textIfThere(join(path, MARKER));
  if (marker === null) {
    const others = readdirSync(path).filter((name) => !HARMLESS.includes(name));
    if (others.length === 0) return;
    throw new UsageError(
      "data_foreign",
      `--data: ${path} has other files in it (${others[0]}): name an empty folder, or one that does not exist yet`,
    );
  }
  if (formatOf(marker) !== FORMAT) {
    throw new UsageError(
      "data_unknown",
      `--data: ${path} was written by a release that this one does not know`,
    );
  }
}

/**
 * The lock of a folder. @throws UsageError `data_in_use` with the process that has it, if it
 * answers
 */
async function lockOf(path: string): Promise<Lock> {
  const lock = await tryLock(join(path, LOCK));
  if (lock !== null) return lock;
  const pid = (await askServer(path))?.pid;
  const holder = pid === undefined ? "another server" : `the server of process ${pid}`;
  throw new UsageError("data_in_use", `--data: ${path} is in use by ${holder}`);
}

/**
 * workerd can't even open its databases for reading without free space. So a start on a full disk removes this file, and a
 * start with enough space creates it again.
 *
 * @param freeBytes space on the disk of the file
 */
export function keepReserve(path: string, freeBytes: number): void {
  // A start that was killed may have left it, and it takes the space that workerd needs.
  rmSync(draftOf(path), { force: true });
  if (freeBytes < RESERVE_BYTES) rmSync(path, { force: true });
  // The space that a start before has just freed stays free: the file leaves at least as much as it takes.
  if (freeBytes < 2 * RESERVE_BYTES || existsSync(path)) return;
  try {
    // Random bytes, as zeros would take no space on a file system that compresses.
    replaceFile(path, randomBytes(RESERVE_BYTES));
  } catch {
    // A quota may allow less than is free. The server works without the file, and the next start tries again.
  }
}

/** Bytes that this user can still write to the disk of a folder, unless a quota allows less. */
function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/** The format that a marker names; anything but a number for a file that is not ours. */
function formatOf(marker: string): unknown {
  try {
    return (JSON.parse(marker) as { format?: unknown } | null)?.format;
  } catch {
    return null;
  }
}

/** Writes a file by renaming a draft: a reader never sees half of it, even after a crash. A failure leaves no draft. */
function replaceFile(path: string, content: string | Uint8Array): void {
  const draft = draftOf(path);
  try {
    writeFileSync(draft, content, { mode: FILE_MODE, flush: true });
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

/**
 * The name of a file while it is written. A crash may leave it behind: the next write replaces it.
 */
function draftOf(path: string): string {
  return `${path}.new`;
}
