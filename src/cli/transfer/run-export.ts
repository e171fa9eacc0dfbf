/** `export`: from a namespace, or a Throttr server, into a file or standard output. */
import { protocolByName } from "../../wire/throttr/protocol.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { bytesGiven, type EncodingOptions } from "../options.ts";
import { assertSameExport, entriesOf, ExportFile, exportAll, writeTo } from "./export.ts";
import { namespaceOf } from "./namespace.ts";
import type { Address } from "./native/connection.ts";
import { NativeSource } from "./native/native-source.ts";
import { tellExport } from "./outcome.ts";
import { addressOf, PIPE } from "./place.ts";
import { showProgress } from "./progress.ts";
import { EdgeSource, type RecordSource } from "./source.ts";

/** The flags of `export`, as parsed. */
export interface ExportOptions extends EncodingOptions {
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

/** Exports into a file, or to standard output. */
export async function runExport(invocation: Invocation, options: ExportOptions): Promise<ExitCode> {
  const prefix = bytesGiven(options.prefix, options);
  const file = await fileOf(options);
  try {
    const source = sourceOf(invocation, options, prefix, file);
    if (file?.isComplete === true) {
      await assertSameExport(file.found!.header, source);
      await file.complete();
      const { counts } = file.found!;
      await tellExport(invocation, { ...counts, resumed: entriesOf(counts) }, []);
    } else {
      await exported(invocation, source, file);
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
      ? await ExportFile.resume(out, force === true)
      : await ExportFile.create(out, force === true);
  }
  if (resume !== true) return null;
  throw new UsageError("option_invalid", "--resume: needs a file as --out");
}

/** Where the records come from: a Throttr server over TCP, or the namespace of the token. */
function sourceOf(
  invocation: Invocation,
  { fromNative, dialect, size, leases }: ExportOptions,
  prefix: Uint8Array,
  file: ExportFile | null,
): RecordSource {
  const { client, call, settings, signal } = invocation;
  if (fromNative !== undefined) {
    const protocol = protocolByName(dialect, size)!;
    const { timeoutMs } = settings;
    return new NativeSource({ address: fromNative, protocol, prefix, timeoutMs, signal });
  }
  const after = file?.found?.last ?? null;
  const name = addressOf(settings.url);
  return new EdgeSource({
    client,
    call,
    name,
    prefix,
    namespace: () => namespaceOf(invocation),
    after,
    hasLeases: leases === true,
  });
}

/** Writes an export, with a progress bar. A failed one leaves a file that `--resume` continues. */
async function exported(
  invocation: Invocation,
  source: RecordSource,
  file: ExportFile | null,
): Promise<void> {
  const { host, output } = invocation;
  const progress = await showProgress(host, output.isJson, "export", () => source.total());
  const write = file?.write ?? writeTo(output);
  try {
    const result = await exportAll(source, write, file?.found ?? null, progress);
    progress.stop();
    await file?.complete();
    await tellExport(invocation, result, source.remarks(), file === null);
  } catch (error) {
    progress.stop();
    if (file !== null && isContinuable(file, error)) await leave(invocation, source, file);
    throw error;
  }
}

/** Whether a failed export has left a part of it, rather than nothing, all of it, or a file of another export. */
function isContinuable({ isEmpty, isClosed }: ExportFile, error: unknown): boolean {
  const isOther = error instanceof UsageError && error.code === "resume_mismatch";
  return !isEmpty && !isClosed && !isOther;
}

/** Says how to continue an incomplete file, or removes it. */
async function leave(
  { output }: Invocation,
  source: RecordSource,
  file: ExportFile,
): Promise<void> {
  const { name, replaces } = file;
  if (!(source instanceof NativeSource)) {
    // With --force the draft lies beside the file that it will replace. `--resume` alone would continue it, too, but leave
    // files of namespaces that have no draft as they are.
    const way = replaces === null ? "--resume" : "--force --resume";
    output.note(`${name} is not complete; run the same command with ${way} to continue`);
  } else if (replaces !== null) {
    // An export from a Throttr server cannot be resumed, so the draft is of no use.
    await file.close();
    await file.remove();
  }
}
