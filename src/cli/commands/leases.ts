/**
 * `acquire`, `renew` and `release`: leases of semaphores.
 *
 * `acquire` has two forms. With a program behind `--` it holds the resources while the program runs and renews the
 * lease meanwhile. Without one it prints a lease, which the caller renews and releases by its id.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { LEASE_TTL_MS_MAX, U32_MAX } from "../../wire/edge/command.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Lease } from "../../wire/edge/semaphores.ts";
import { durationMsOf } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { runHolding } from "../held-command.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  wholeArgument,
  type EncodingOptions,
} from "../options.ts";
import { remainingJson, remainingText } from "../records.ts";
import { listOf } from "../table.ts";
import { jsonBytes } from "../text.ts";

interface AcquireOptions extends EncodingOptions {
  /** What all holders may hold together. */
  readonly maximum: number;
  /** What this lease holds. */
  readonly resources: number;
  /** In milliseconds, as `wait`. */
  readonly ttl: number;
  readonly wait?: number;
  /** A UUID. A retry with the same one finds the lease that the first call got. */
  readonly leaseId?: string;
  /** Lets a script tell a busy semaphore from a program that failed with 1. */
  readonly conflictExitCode: number;
}

/** Default TTL. A holder that dies blocks the others for at most this long. */
const TTL_MS = 30_000;
/** The shortest TTL of a lease that this process renews: renewals must have time to arrive. */
const HELD_TTL_MS_MIN = 1000;

/** Shown under `acquire --help`. */
const EXAMPLES = `
Examples:
  throttr-edge acquire deploy --maximum 1 -- ./deploy.sh
  throttr-edge acquire gpu --maximum 4 --resources 2 --wait 5m -- python train.py
  throttr-edge acquire gpu --maximum 4 --ttl 1h --json`;

/** The commands of this file, in the order of `--help`. */
export const LEASES: readonly AddCommand[] = [addAcquire, addRenew, addRelease];

/** Resources are counted in 32 bits, as everywhere in the protocol of semaphores. */
const count = wholeArgument(1, U32_MAX);

function leaseTtlOption(description: string): Option {
  return new Option("--ttl <duration>", description).argParser(leaseTtl).default(TTL_MS, "30s");
}

function addAcquire(program: Command): void {
  const command = program
    .command("acquire")
    .description(
      "hold resources of a semaphore while a command runs, and exit with its exit code; without a command, print a lease. Exits with 1 if there is no room",
    )
    .argument("<name>", "name of the semaphore")
    .argument("[command...]", "command to run while the resources are held, after --")
    .requiredOption("--maximum <n>", "total that all holders may hold together", count)
    .option("--resources <n>", "number of resources to hold", count, 1)
    .addOption(leaseTtlOption("TTL of the lease if it is not renewed"))
    .option("--wait <duration>", "how long to wait for room", durationMsOf)
    .option(
      "--lease-id <uuid>",
      "ID of the lease; a repeated call with the same ID does not hold twice",
    )
    .option(
      "--conflict-exit-code <n>",
      "exit code if there is no room",
      wholeArgument(0, 255),
      ExitCode.refused,
    )
    .addHelpText("after", EXAMPLES)
    .action(
      action<AcquireOptions, [string, readonly string[]]>(
        async (invocation, options, text, words) => {
          const name = bytesGiven(text, options);
          return words.length > 0
            ? await runWithLease(invocation, options, name, words)
            : await printLease(invocation, options, name);
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}

/**
 * Acquires a lease and runs a program under it. Without room it exits as `--conflict-exit-code`
 * says.
 */
async function runWithLease(
  invocation: Invocation,
  options: AcquireOptions,
  name: Uint8Array,
  words: readonly string[],
): Promise<ExitCode> {
  if (options.leaseId !== undefined) {
    throw new UsageError(
      "option_invalid",
      "--lease-id: not allowed with a command, which gets a lease of its own",
    );
  }
  const lease = await hold(invocation, options, name);
  if (lease === null) {
    const detail = `no room for ${options.resources} of ${options.maximum}`;
    invocation.report(new ThrottrError("semaphore_unavailable", detail));
    return options.conflictExitCode;
  }
  return await runHolding(invocation, lease, words);
}

/** Acquires a lease that the client renews until it is released or the client closes. Null if there is no room. */
async function hold(
  { client, signal }: Invocation,
  { maximum, resources, ttl: ttlMs, wait: waitMs = 0 }: AcquireOptions,
  name: Uint8Array,
) {
  if (ttlMs < HELD_TTL_MS_MIN) {
    throw new UsageError(
      "ttl_invalid",
      "--ttl: must be at least 1s with a command or --wait, so that renewals arrive in time",
    );
  }
  return await client.semaphore(name, maximum).acquire({ resources, ttlMs, waitMs, signal });
}

/** Acquires a lease and prints it; the caller renews and releases it. */
async function printLease(
  invocation: Invocation,
  options: AcquireOptions,
  name: Uint8Array,
): Promise<ExitCode> {
  const { client, call, output } = invocation;
  const { maximum, resources, ttl: ttlMs, leaseId } = options;
  const lease =
    options.wait === undefined
      ? await client.acquire(name, { maximum, resources, ttlMs, leaseId, ...call })
      : await acquireInTime(invocation, options, name);
  if (lease === null) {
    await output.print({ ...jsonBytes("name", name), acquired: false }, () =>
      output.bad(`no room for ${resources} of ${maximum}`),
    );
    return options.conflictExitCode;
  }
  await output.print({ ...jsonBytes("name", name), acquired: true, ...leaseJson(lease) }, () =>
    leaseText(invocation, lease),
  );
  return ExitCode.done;
}

/** Waits for a lease, and renews it at the end so that its whole TTL is left when it is printed. */
async function acquireInTime(
  invocation: Invocation,
  options: AcquireOptions,
  name: Uint8Array,
): Promise<Lease | null> {
  if (options.leaseId !== undefined) {
    throw new UsageError("option_invalid", "--lease-id: not allowed with --wait");
  }
  const { client, call } = invocation;
  const held = await hold(invocation, options, name);
  return held === null
    ? null
    : await client.renew(name, held.leaseId, { ttlMs: options.ttl }, call);
}

/** Adds `renew`, for leases that `acquire` has printed. */
function addRenew(program: Command): void {
  const command = program
    .command("renew")
    .description("extend a lease; exits with 1 if it does not exist or has ended")
    .argument("<name>", "name of the semaphore")
    .argument("<lease>", "id of the lease")
    .addOption(leaseTtlOption("new TTL, from now"))
    .action(
      action<EncodingOptions & { readonly ttl: number }, [string, string]>(
        async (invocation, options, text, leaseId) => {
          const { client, call, output } = invocation;
          const name = bytesGiven(text, options);
          const lease = await client.renew(name, leaseId, { ttlMs: options.ttl }, call);
          if (lease === null) {
            await output.print({ ...jsonBytes("name", name), renewed: false, leaseId }, () =>
              output.bad("no such lease"),
            );
            return ExitCode.refused;
          }
          const json = { ...jsonBytes("name", name), renewed: true, ...leaseJson(lease) };
          await output.print(json, () => leaseText(invocation, lease));
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}

/** Adds `release`. A lease that has expired can't be released, so that exits with 1. */
function addRelease(program: Command): void {
  const command = program
    .command("release")
    .description("release a lease; exits with 1 if it does not exist or has ended")
    .argument("<name>", "name of the semaphore")
    .argument("<lease>", "id of the lease")
    .action(
      action<EncodingOptions, [string, string]>(
        async ({ client, call, output }, options, text, leaseId) => {
          const name = bytesGiven(text, options);
          const released = await client.release(name, leaseId, call);
          const json = { ...jsonBytes("name", name), leaseId, released };
          return await output.outcome(json, released, "released", "no such lease");
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}

/** A lease for scripts. */
const leaseJson = (lease: Lease) => ({
  leaseId: lease.leaseId,
  resources: lease.resources,
  ...remainingJson(lease),
});

/** A lease for people. */
function leaseText({ output }: Invocation, lease: Lease): string {
  return listOf(output, [
    ["lease", lease.leaseId],
    ["resources", String(lease.resources)],
    ...remainingText(lease),
  ]);
}

/** Reads the TTL of a lease: 1 ms to 1 day, as the server takes it. */
function leaseTtl(text: string): number {
  const ms = durationMsOf(text);
  if (ms >= 1 && ms <= LEASE_TTL_MS_MAX) return ms;
  throw new InvalidArgumentError("Expected a duration from 1ms to 1d.");
}
