/**
 * `export` and `import`: backup, and moving data to another deployment.
 *
 * Both can be interrupted at any byte and resumed. An export is checked as a whole before an import changes anything,
 * except from a pipe, which can be read only once.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { VALUE_SIZES } from "../../wire/throttr/protocol.ts";
import type { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import { addConnectionOptions, addEncodingOptions } from "../options.ts";
import { exportEach, importEach } from "./all-namespaces.ts";
import type { Address } from "./native/connection.ts";
import { PIPE } from "./place.ts";
import { runExport, type ExportOptions } from "./run-export.ts";
import { runImport, type ImportOptions } from "./run-import.ts";

/** The largest port of TCP: 16 bits. */
const PORT_MAX = 65_535;

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
    .option(
      "--force",
      "replace an existing file once the export is complete; with --resume, continue one that was interrupted",
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
        return await importEach(invocation, folder, importFrom, options);
      }),
    );
  addConnectionOptions(command);
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
