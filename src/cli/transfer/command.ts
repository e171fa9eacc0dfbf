/**
 * `export` and `import`: backup, and moving data to another deployment.
 *
 * Both can be interrupted at any byte and resumed. An export is checked as a whole before an import changes anything,
 * except from a pipe, which can be read only once.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import type { ThrottrClient } from "../../client/client.ts";
import type { RestorePolicyName } from "../../wire/edge/transfer.ts";
import { protocolByName, VALUE_SIZES } from "../../wire/throttr/protocol.ts";
import { ExitCode } from "../exit-code.ts";
import { failureOf, UsageError } from "../failure.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  type EncodingOptions,
} from "../options.ts";
import { exportEach, importEach } from "./all-namespaces.ts";
import { entriesOf, ExportFile, exportAll, writeTo } from "./export.ts";
import { chunksOf, importFile, importStream, survey, type Survey } from "./import.ts";
import type { Address } from "./native/connection.ts";
import { NativeSource } from "./native/native-source.ts";
import { ProgressFile, type ImportProgress } from "./progress-file.ts";
import { tellExport, tellImport, tellSurvey } from "./outcome.ts";
import { showProgress } from "./progress.ts";
import {
  noRestoreCounts,
  Restorer,
  restoreTotal,
  type Position,
  type RestoreCounts,
} from "./restorer.ts";
import { EdgeSource, type RecordSource } from "./source.ts";

/** The file name that stands for standard input or output. */
const PIPE = "-";
/** The largest port of TCP: 16 bits. */
const PORT_MAX = 65_535;

/** The flags of `export`, as parsed. */
interface ExportOptions extends EncodingOptions {
  readonly out: string;
  readonly prefix: string;
  readonly resume?: boolean;
  readonly force?: boolean;
  readonly fromNative?: Address;
  readonly size: string;
  readonly dialect: string;
  readonly leases?: boolean;
  /** A folder, for a file of each namespace. */
  readonly allNamespaces?: string;
}

/** The flags of `import`, as parsed. */
interface ImportOptions {
  readonly policy: RestorePolicyName;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly partial?: boolean;
  /** A folder that such an export wrote. */
  readonly allNamespaces?: string;
}

/** The commands of this file, in the order of `--help`. */
export const TRANSFERS: readonly AddCommand[] = [addExport, addImport];

function addExport(program: Command): void {
  const command = program
    .command("export")
    .description("write all records with their expiry as JSON Lines")
    .option("-o, --out <file>", "file to write; - is standard output", PIPE)
    .addOption(
      new Option(
        "--all-namespaces <folder>",
        "write a file for each namespace; needs a token for all of them",
      ).conflicts(["out", "fromNative", "namespace"]),
    )
    .addOption(
      new Option(
        "--prefix <prefix>",
        "only keys, consumers of pairs and names of semaphores that begin with it",
      ).default("", "all"),
    )
    .addOption(
      new Option(
        "--leases",
        "also the leases of semaphores, with their ends; needs the scope admin",
      ).conflicts("fromNative"),
    )
    .addOption(
      new Option("--resume", "continue a file that is not complete").conflicts("fromNative"),
    )
    .addOption(
      new Option("--force", "replace an existing file once the export is complete").conflicts(
        "resume",
      ),
    )
    .option(
      "--from-native <host:port>",
      "read from a Throttr server over TCP instead, in its own protocol",
      addressArgument,
    )
    .addOption(
      new Option("--size <size>", "value size of that server")
        .choices(VALUE_SIZES)
        .default("uint16"),
    )
    .addOption(
      new Option("--dialect <dialect>", "protocol of that server")
        .choices(["7.3", "7.1"])
        .default("7.3"),
    )
    .action(
      action<ExportOptions, []>(async (invocation, options) => {
        const { allNamespaces: folder } = options;
        if (folder === undefined) return await runExport(invocation, options);
        const exportTo = async (into: Invocation, out: string): Promise<ExitCode> =>
          await runExport(into, { ...options, out });
        return await exportEach(invocation, folder, exportTo);
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the prefix"));
}

function addImport(program: Command): void {
  const command = program
    .command("import")
    .description("restore the records and leases of an export, each until its own expiry")
    .argument("[file]", "file that export wrote; - is standard input", PIPE)
    .addOption(
      new Option(
        "--all-namespaces <folder>",
        "restore each namespace that export wrote there; needs a token for all of them",
      ).conflicts("namespace"),
    )
    .addOption(
      new Option("--policy <policy>", "what to do with a record that already exists")
        .choices(["keep", "replace"])
        .default("keep"),
    )
    .option("--dry-run", "check the file without changing anything")
    .addOption(
      new Option("--resume", "continue an interrupted import of this file").conflicts("dryRun"),
    )
    .option("--partial", "accept a file that was cut short")
    .action(
      action<ImportOptions, [string]>(async (invocation, options, file) => {
        const { allNamespaces: folder } = options;
        if (folder === undefined) return await runImport(invocation, options, file);
        if (file !== PIPE) {
          throw new UsageError("option_invalid", "--all-namespaces: give no file beside it");
        }
        const importFrom = async (into: Invocation, name: string): Promise<ExitCode> =>
          await runImport(into, options, name);
        return await importEach(invocation, folder, importFrom);
      }),
    );
  addConnectionOptions(command);
}

async function runExport(invocation: Invocation, options: ExportOptions): Promise<ExitCode> {
  const prefix = bytesGiven(options.prefix, options);
  const file = await fileOf(options);
  try {
    if (file?.isComplete === true) {
      await file.complete();
      const { counts } = file.found!;
      await tellExport(invocation, { ...counts, resumed: entriesOf(counts) }, []);
    } else {
      await exported(invocation, sourceOf(invocation, options, prefix, file), prefix, file);
    }
    return ExitCode.done;
  } finally {
    await file?.close();
  }
}

/** The file to write; null for standard output. @throws UsageError, also as `ExportFile` */
async function fileOf({ out, resume, force }: ExportOptions): Promise<ExportFile | null> {
  if (out !== PIPE) {
    return resume === true
      ? await ExportFile.resume(out)
      : await ExportFile.create(out, force === true);
  }
  if (resume !== true) return null;
  throw new UsageError("option_invalid", "--resume: needs a file as --out");
}

/** Where the records come from: a Throttr server over TCP, or the namespace of the token. */
function sourceOf(
  { client, call, settings, signal }: Invocation,
  { fromNative, dialect, size, leases }: ExportOptions,
  prefix: Uint8Array,
  file: ExportFile | null,
): RecordSource {
  if (fromNative !== undefined) {
    const protocol = protocolByName(dialect, size)!;
    const { timeoutMs } = settings;
    return new NativeSource({ address: fromNative, protocol, prefix, timeoutMs, signal });
  }
  const after = file?.found?.last ?? null;
  const name = addressOf(settings.url);
  return new EdgeSource({ client, call, name, prefix, after, hasLeases: leases === true });
}

/** Writes an export, with a progress bar. A failed one leaves a file that `--resume` continues. */
async function exported(
  invocation: Invocation,
  source: RecordSource,
  prefix: Uint8Array,
  file: ExportFile | null,
): Promise<void> {
  const { host, output } = invocation;
  const progress = await showProgress(host, output.isJson, "export", () => source.total());
  try {
    const write = file?.write ?? writeTo(output);
    const result = await exportAll(source, prefix, write, file?.found ?? null, progress);
    await file?.complete();
    progress.stop();
    await tellExport(invocation, result, source.remarks(), file === null);
  } catch (error) {
    progress.stop();
    if (file !== null && !file.isEmpty) await leave(invocation, source, file, error);
    throw error;
  }
}

/** Closes an incomplete file, and says how to continue it or removes it. */
async function leave(
  { output }: Invocation,
  source: RecordSource,
  file: ExportFile,
  error: unknown,
): Promise<void> {
  await file.close();
  const { name, replaces } = file;
  // The file belongs to another export, or it is complete and could not be renamed: leave it alone.
  if (error instanceof UsageError) return;
  if (!(source instanceof NativeSource)) {
    // With --force the draft lies beside the file that it will replace, and only --resume looks for
    // it.
    const way = replaces === null ? "--resume" : "--resume instead of --force";
    output.note(`${name} is not complete; run the same command with ${way} to continue`);
  } else if (replaces !== null) {
    // An export from a Throttr server cannot be resumed, so the draft is of no use.
    await file.remove();
  }
}

/**
 * Runs `import` in one of three ways: check only, from a pipe, or from a file that was checked as a
 * whole first.
 */
async function runImport(
  invocation: Invocation,
  options: ImportOptions,
  name: string,
): Promise<ExitCode> {
  const isPartial = options.partial === true;
  const isPipe = name === PIPE;
  const { stdin } = invocation.host;
  if (options.dryRun === true) {
    await tellSurvey(invocation, await survey(isPipe ? stdin : await chunksOf(name), isPartial));
    return ExitCode.done;
  }
  if (isPipe) {
    if (options.resume === true) {
      throw new UsageError("option_invalid", "--resume: needs a file");
    }
    return await importPipe(invocation, options);
  }
  const surveyed = await survey(await chunksOf(name), isPartial);
  return await importSurveyed(invocation, options, name, surveyed);
}

/** Restores while it reads: a pipe can be read only once, so nothing can be checked before. */
async function importPipe(
  invocation: Invocation,
  { policy, partial }: ImportOptions,
): Promise<ExitCode> {
  const task: ImportTask = { policy, counts: noRestoreCounts(), bytes: null, isResumed: false };
  const restorer = await restored(invocation, task, (made) =>
    importStream(invocation.host.stdin, partial === true, made),
  );
  return await tellImport(invocation, restorer, true);
}

/** Restores a file that was read and checked before, and keeps its progress in a file beside it. */
async function importSurveyed(
  invocation: Invocation,
  { policy, resume }: ImportOptions,
  name: string,
  surveyed: Survey,
): Promise<ExitCode> {
  const { sha256, bytes } = surveyed;
  // Beside the file rather than in a folder of ours: it moves and goes away with the file.
  const file = new ProgressFile(name);
  // What an import must have in common with the one that it continues.
  const identity = { sha256, target: addressOf(invocation.settings.url), policy };
  const before = resume === true ? await file.read(identity) : null;
  const counts = countsOf(before);
  const save = (done: Position, isLast: boolean): Promise<void> =>
    file.write({ ...identity, ...done, ...counts }, isLast);
  const task: ImportTask = { policy, counts, bytes, isResumed: before !== null, save };
  const restorer = await restored(invocation, task, (made) =>
    importFile(name, before ?? { line: 0, endsAt: 0 }, surveyed, made),
  );
  await file.remove();
  return await tellImport(invocation, restorer, true);
}

/** What an import from a pipe and one from a file differ in. */
interface ImportTask {
  readonly policy: RestorePolicyName;
  /** Counts of an earlier run, which are added to. */
  readonly counts: RestoreCounts;
  /** Length of the file, for the progress bar; null for a pipe. */
  readonly bytes: number | null;
  readonly isResumed: boolean;
  /** Stores how far the import got. Missing for a pipe, which cannot be resumed. */
  readonly save?: (done: Position, isLast: boolean) => Promise<void>;
}

/**
 * Restores records with a progress bar. If that fails, it prints what was restored until then, and how to continue,
 * before it throws.
 */
async function restored(
  invocation: Invocation,
  { policy, counts, bytes, isResumed, save }: ImportTask,
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
    if (save !== undefined && (done !== null || isResumed)) output.note(resumptionOf(error));
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

/** An address without query and credentials, for files and messages. */
function addressOf(url: string): string {
  if (!URL.canParse(url)) return "";
  const { origin, pathname } = new URL(url);
  return pathname === "/" ? origin : origin + pathname;
}

/**
 * Reads `host:port`, with IPv6 in brackets. Names are allowed: unlike a port to listen on, this is
 * another machine.
 */
function addressArgument(text: string): Address {
  const found = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const port = Number(found?.[3]);
  if (found === null || port < 1 || port > PORT_MAX) {
    throw new InvalidArgumentError("Expected an address such as 127.0.0.1:9002.");
  }
  return { host: (found[1] ?? found[2])!, port };
}
