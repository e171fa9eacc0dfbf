/** What `export` and `import` print of their outcome. */
import { ExitCode } from "../exit-code.ts";
import type { Invocation } from "../invocation.ts";
import type { ConnectionOptions } from "../options.ts";
import type { Json } from "../output.ts";
import { shownText } from "../text.ts";
import type { Exported } from "./export.ts";
import type { Survey } from "./import.ts";
import { failedTotal, type Restorer } from "./restorer.ts";

/** Prints the outcome. For an export to standard output it goes to standard error. */
export async function tellExport(
  { host, output, flags }: Invocation,
  { records, counters, buffers, pairs, leases, resumed }: Exported,
  remarks: readonly string[],
  isPipe = false,
): Promise<void> {
  const text = [
    `${headOf(flags)}${records} records exported: ${counters} counters (${pairs} under pairs), ${buffers} buffers`,
    ...leasesTold(leases, "exported"),
    ...(resumed > 0 ? [`${resumed} of them by an earlier run`] : []),
    ...remarks,
  ].join("\n");
  if (isPipe) {
    // Standard output carries the export and nothing else.
    host.stderr.write(`${text}\n`);
    return;
  }
  const json = { records, counters, buffers, pairs, leases, resumed, remarks };
  await output.print({ ...namedBy(flags), ...json }, () => text);
}

/** Prints what an import would do. */
export async function tellSurvey(
  { output, flags }: Invocation,
  { counts, expired }: Survey,
): Promise<void> {
  const { records, counters, buffers, pairs, leases } = counts;
  const json = { dryRun: true, records, counters, buffers, pairs, leases, expired };
  await output.print({ ...namedBy(flags), ...json }, () =>
    [
      `${headOf(flags)}${records} records would be imported: ${counters} counters (${pairs} under pairs), ${buffers} buffers`,
      ...leasesTold(leases, "would be imported"),
      `${expired} of them have expired`,
    ].join("\n"),
  );
}

/** Prints the outcome of an import. Exits with 3 if the server refused some records. */
export async function tellImport(
  { output, flags }: Invocation,
  { counts, failures }: Restorer,
  isComplete: boolean,
): Promise<ExitCode> {
  const { restored, kept, expired, failed } = counts;
  const failedCount = failedTotal(failed);
  const json: Json = {
    ...namedBy(flags),
    complete: isComplete,
    restored,
    kept,
    expired,
    failed: failedCount,
    failedByCode: failed,
    failures: failures.map(({ line, code, message }) => ({ line, code, message })),
  };
  await output.print(json, () =>
    [
      `${headOf(flags)}${restored} restored, ${kept} kept, ${expired} expired, ${failedCount} failed`,
      ...Object.entries(failed).map(([code, count]) => `  ${code}: ${count}`),
      ...failures.map(({ line, message }) => `  line ${line}: ${shownText(message)}`),
    ].join("\n"),
  );
  return failedCount === 0 ? ExitCode.done : ExitCode.server;
}

/** A line about leases, if there are any. */
const leasesTold = (leases: number, what: string): string[] =>
  leases === 0 ? [] : [`${leases} leases ${what}`];

/** Says which namespace an outcome is of, where one was named. */
const headOf = ({ namespace }: ConnectionOptions): string =>
  namespace === undefined ? "" : `${namespace}: `;
const namedBy = ({ namespace }: ConnectionOptions): { readonly namespace?: string } =>
  namespace === undefined ? {} : { namespace };
