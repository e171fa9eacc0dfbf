/**
 * The folder where a server keeps its data, for one server at a time.
 *
 *     throttr-edge.json   says that the folder is one of ours
 *     lock                held while a server runs
 *     server.json         which server runs, or ran last
 *     objects/            one SQLite file for each object, by the classes' unique keys
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve, sep } from "node:path";
import * as v from "valibot";
import { UsageError } from "../failure.ts";
import { tryLock, type Lock } from "./lock.ts";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const MARKER = "throttr-edge.json";
const LOCK = "lock";
const RECORD = "server.json";
const OBJECTS = "objects";
const FORMAT = 1;
/** What a folder may have in it before it is ours: a file system's root has this. */
const HARMLESS: readonly string[] = ["lost+found", LOCK];

const recordSchema = v.object({
  pid: v.number(),
  workerdPid: v.number(),
  /** When workerd was started, as the kernel counts; null where that can't be known. */
  workerdStart: v.nullable(v.string()),
  /** Where it is asked how it is; null before it is ready. */
  url: v.nullable(v.string()),
});

/** Which server runs on a folder. */
export type ServerRecord = v.InferOutput<typeof recordSchema>;

export class DataFolder {
  readonly path: string;
  readonly #lock: Lock;

  private constructor(path: string, lock: Lock) {
    this.path = path;
    this.#lock = lock;
  }

  /**
   * Makes the folder where it isn't there, and takes it.
   *
   * @throws UsageError `data_foreign` for a folder of something else, `data_unknown` for one of a newer
   * release, `data_in_use` while another server has it, `data_unusable` when the system refuses
   */
  static async open(path: string): Promise<DataFolder> {
    refuseForeign(path);
    const lock = await locked(path);
    try {
      // Once more: another server may have made the folder its own meanwhile.
      refuseForeign(path);
      refuseOrphan(path);
      const marker = join(path, MARKER);
      if (!existsSync(marker)) replaceFile(marker, { format: FORMAT });
      mkdirSync(join(path, OBJECTS), { recursive: true, mode: FOLDER_MODE });
      return new DataFolder(path, lock);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Where the files of the objects are. */
  get objectsFolder(): string {
    return join(this.path, OBJECTS);
  }

  /** Says which server runs. */
  record(record: ServerRecord): void {
    replaceFile(join(this.path, RECORD), record);
  }

  /** Lets go of the folder: the server has ended. */
  close(): void {
    rmSync(join(this.path, RECORD), { force: true });
    this.#lock.release();
  }
}

/** What the folder says of its server; null when none has run, or it has ended in order. */
export function serverRecord(path: string): ServerRecord | null {
  const result = v.safeParse(recordSchema, readJson(join(path, RECORD)));
  return result.success ? result.output : null;
}

/** Where the time stands behind the third field, the state: the 22nd field of proc_pid_stat(5). */
const START_FIELD = 18;

/**
 * When a process was started, so that another one with its id is not taken for it. Null where that can't
 * be known, and of one that has ended.
 */
export function processStart(pid: number): string | null {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name, which may have anything in it.
    const [state, ...others] = status.slice(status.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? null : (others[START_FIELD] ?? null);
  } catch {
    return null;
  }
}

function refuseForeign(path: string): void {
  if (resolve(path).split(sep).includes(".wrangler")) {
    throw new UsageError("data_foreign", `--data: ${path} is where wrangler keeps its own data`);
  }
  if (!existsSync(path)) return;
  const marker = readJson(join(path, MARKER)) as { format?: unknown } | null;
  if (marker === null) {
    const others = namesIn(path).filter((name) => !HARMLESS.includes(name));
    if (others.length === 0) return;
    throw new UsageError(
      "data_foreign",
      `--data: ${path} has something else in it (${others[0]}): name an empty folder, or one that is not there yet`,
    );
  }
  if (marker.format !== FORMAT) {
    throw new UsageError(
      "data_unknown",
      `--data: ${path} was written by a release that this one does not know`,
    );
  }
}

async function locked(path: string): Promise<Lock> {
  try {
    mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
    const lock = await tryLock(join(path, LOCK));
    if (lock !== null) return lock;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError("data_unusable", `--data: ${path}: ${(error as Error).message}`);
  }
  const pid = serverRecord(path)?.pid;
  const holder = pid === undefined ? "another server" : `the server of process ${pid}`;
  throw new UsageError("data_in_use", `--data: ${path} is in use by ${holder}`);
}

/** A server that was killed may have left its workerd running, which holds no lock. */
function refuseOrphan(path: string): void {
  const record = serverRecord(path);
  if (record === null || !isRunning(record)) return;
  throw new UsageError(
    "data_in_use",
    `--data: ${path} is in use by workerd, process ${record.workerdPid}, whose server was killed: end it first`,
  );
}

function isRunning({ workerdPid, workerdStart }: ServerRecord): boolean {
  if (workerdStart !== null) return processStart(workerdPid) === workerdStart;
  try {
    return process.kill(workerdPid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    throw new UsageError("data_unusable", `--data: ${path}: ${(error as Error).message}`);
  }
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}

/** Nobody reads half of it, not after a crash either. */
function replaceFile(path: string, content: object): void {
  const draft = `${path}.new`;
  writeFileSync(draft, `${JSON.stringify(content)}\n`, { mode: FILE_MODE, flush: true });
  renameSync(draft, path);
}
