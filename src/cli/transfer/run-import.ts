/** `import`: from a file, a pipe or standard input, into a namespace. */
import { stat } from "node:fs/promises";
import type { ThrottrClient } from "../../client/client.ts";
import type { RestorePolicyName } from "../../wire/edge/transfer.ts";
import { ExitCode } from "../exit-code.ts";
import { failureOf, UsageError } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { chunksOf, importFile, importStream, survey, type Survey } from "./import.ts";
import { namespaceOf } from "./namespace.ts";
import { tellImport, tellSurvey } from "./outcome.ts";
import { addressOf, PIPE } from "./place.ts";
import { ProgressFile, type ImportProgress } from "./progress-file.ts";
import { showProgress } from "./progress.ts";
import {
  noRestoreCounts,
  Restorer,
  restoreTotal,
  type Position,
  type RestoreCounts,
} from "./restorer.ts";

/** The flags of `import`, as parsed. */
export interface ImportOptions {
  readonly policy: RestorePolicyName;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly partial?: boolean;
  /** A folder that such an export wrote. */
  readonly allNamespaces?: string;
}

/**
 * Runs `import` in one of three ways: check only, from a pipe, or from a file that was checked as a
 * whole first.
 */
export async function runImport(
  invocation: Invocation,
  options: ImportOptions,
  name: string,
): Promise<ExitCode> {
  const isPartial = options.partial === true;
  const isPipe = name === PIPE || (await isReadOnce(name));
  const chunks = (): AsyncIterable<Uint8Array> =>
    name === PIPE ? invocation.host.stdin : chunksOf(name);
  if (options.dryRun === true) {
    await tellSurvey(invocation, await survey(chunks(), isPartial));
    return ExitCode.done;
  }
  if (isPipe) {
    if (options.resume === true) {
      throw new UsageError("option_invalid", "--resume: needs a file");
    }
    return await importPipe(invocation, options, chunks());
  }
  const surveyed = await survey(chunks(), isPartial);
  return await importSurveyed(invocation, options, name, surveyed);
}

/** Whether a name is that of a pipe or a device, as the shell gives one to `<(gunzip -c backup.jsonl.gz)`. */
async function isReadOnce(name: string): Promise<boolean> {
  const found = await stat(name).catch(() => null);
  return found !== null && !found.isFile() && !found.isDirectory();
}

/** Restores while it reads: a pipe can be read only once, so nothing can be checked before. */
async function importPipe(
  invocation: Invocation,
  { policy, partial }: ImportOptions,
  chunks: AsyncIterable<Uint8Array>,
): Promise<ExitCode> {
  const task: ImportTask = { policy, counts: noRestoreCounts(), bytes: null };
  const restorer = await restored(invocation, task, (made) =>
    importStream(chunks, partial === true, made),
  );
  return await tellImport(invocation, restorer, true);
}

/** Restores a file that was read and checked before, and keeps its progress in a file beside it. */
async function importSurveyed(
  invocation: Invocation,
  { policy, resume, allNamespaces }: ImportOptions,
  name: string,
  surveyed: Survey,
): Promise<ExitCode> {
  const { sha256, bytes } = surveyed;
  // Beside the file rather than in a folder of ours: it moves and goes away with the file.
  const file = new ProgressFile(name, (text) => invocation.output.note(text));
  // What an import must have in common with the one that it continues.
  const identity = { sha256, target: addressOf(invocation.settings.url), policy };
  const before = resume === true ? await file.read(identity) : null;
  const namespace = new TargetNamespace(invocation);
  // What an earlier import with other data has left must not be continued by a later one.
  if (before === null) await file.remove();
  else if (before.namespace !== undefined) file.assertNamespace(before, await namespace.ask());
  const counts = countsOf(before);
  const save = async (done: Position, isLast: boolean): Promise<void> =>
    await file.write({ ...identity, ...(await namespace.field()), ...done, ...counts }, isLast);
  const hasProgress = (isBegun: boolean): boolean => before !== null || (isBegun && !file.isLost);
  const task: ImportTask = { policy, counts, bytes, hasProgress, save };
  const restorer = await restored(invocation, task, (made) =>
    importFile(name, before ?? { line: 0, endsAt: 0 }, surveyed, made),
  );
  if (allNamespaces === undefined) await file.remove();
  // Until the whole folder is done, a resumed import must know which of its files are.
  else await save({ line: restorer.done?.line ?? before?.line ?? 0, endsAt: bytes }, true);
  return await tellImport(invocation, restorer, true);
}

/** The namespace that an import goes into, asked for once, and not before it is needed. */
class TargetNamespace {
  readonly #invocation: Invocation;
  #asked: Promise<string | null> | null = null;

  constructor(invocation: Invocation) {
    this.#invocation = invocation;
  }

  /** The namespace; null where the server does not say it. @throws ThrottrError when it does not answer */
  ask(): Promise<string | null> {
    return (this.#asked ??= namespaceOf(this.#invocation));
  }

  /** The field of the progress file; left out without an answer, as the import itself may go on over its WebSocket. */
  async field(): Promise<{ namespace?: string }> {
    const namespace = await this.ask().catch(() => null);
    return namespace === null ? {} : { namespace };
  }
}

/** What an import from a pipe and one from a file differ in. */
interface ImportTask {
  readonly policy: RestorePolicyName;
  /** Counts of an earlier run, which are added to. */
  readonly counts: RestoreCounts;
  /** Length of the file, for the progress bar; null for a pipe. */
  readonly bytes: number | null;
  /** Whether there is progress to continue from. Missing for a pipe. */
  readonly hasProgress?: (isBegun: boolean) => boolean;
  /** Stores how far the import got. Missing for a pipe, which cannot be resumed. */
  readonly save?: (done: Position, isLast: boolean) => Promise<void>;
}

/**
 * Restores records with a progress bar. If that fails, it prints what was restored until then, and how to continue,
 * before it throws.
 */
async function restored(
  invocation: Invocation,
  { policy, counts, bytes, hasProgress, save }: ImportTask,
  restore: (restorer: Restorer) => Promise<void>,
): Promise<Restorer> {
  const { call, host, output } = invocation;
  const client = socketClientOf(invocation);
  const progress = await showProgress(host, output.isJson, "import", () => Promise.resolve(bytes));
  const onDone = async (): Promise<void> => {
    progress.update(restorer.done!.endsAt, restoreTotal(counts));
    await save?.(restorer.done!, false);
  };
  const restorer: Restorer = new Restorer({ client, call, policy, counts, onDone });
  try {
    await restore(restorer);
    progress.stop();
    return restorer;
  } catch (error) {
    progress.stop();
    const { done } = restorer;
    if (done !== null) await save?.(done, true);
    await tellImport(invocation, restorer, false);
    // Where nothing was done there is nothing to go on from.
    if (hasProgress?.(done !== null) === true) output.note(resumptionOf(error));
    throw error;
  }
}

/** How to continue a failed import. If the server refused it, it would refuse again until the cause is gone. */
function resumptionOf(error: unknown): string {
  const { exitCode } = failureOf(error);
  // A network that fails and a person who stops leave nothing to repair before another attempt.
  const isOfTheWay = exitCode === ExitCode.connection || exitCode === ExitCode.interrupted;
  const way = "run the same command with --resume to continue";
  return isOfTheWay ? way : `${way}, once the problem below is solved`;
}

/**
 * A client over a WebSocket, whatever the address begins with. Over a WebSocket a record that the token does not allow
 * is refused alone; over HTTP the whole body that contains it is refused.
 */
function socketClientOf({ run, settings }: Invocation): ThrottrClient {
  return run.clients.clientOf({ ...settings, url: settings.url.replace(/^http/i, "ws") });
}

/**
 * The counts to go on from. Copied without the other fields of the progress, which are written with
 * newer values.
 */
function countsOf(before: ImportProgress | null): RestoreCounts {
  if (before === null) return noRestoreCounts();
  const { restored, kept, expired, failed } = before;
  return { restored, kept, expired, failed: { ...failed } };
}
