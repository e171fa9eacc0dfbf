/** A command of the system that runs while a lease is held. */
import { spawn, type ChildProcess } from "node:child_process";
import { constants } from "node:os";
import type { HeldLease } from "../client/leases.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { failureOf } from "./failure.ts";
import type { ExitCode } from "./exit-code.ts";
import type { Invocation } from "./invocation.ts";

/** What shells give for a command that is not there, or can't be run. */
const NOT_FOUND = 127;
const NOT_RUNNABLE = 126;
/** Added to the number of the signal that a command was ended by. */
const SIGNALLED = 128;
/** How long a command that has lost its lease may take to end. */
const GRACE_MS = 10_000;

/**
 * Runs a command, and releases the lease at its end. Gives its exit code: 128 and the number of the signal
 * that has ended it, 127 where there is no such command.
 *
 * Signals are passed on to the command: it decides. Where the lease is lost, it is ended with SIGTERM, and
 * with SIGKILL if it is still there after 10 s.
 */
export async function runHolding(
  invocation: Invocation,
  lease: HeldLease,
  [program, ...args]: readonly string[],
): Promise<ExitCode> {
  const child = spawn(program!, args, {
    stdio: "inherit",
    env: { ...invocation.host.environment, THROTTR_LEASE_ID: lease.leaseId },
  });
  const ended = endOf(child);
  const killer = endAtLoss(child, lease, invocation);
  const stopPassing = passSignals(child, invocation);
  try {
    const exitCode = await ended;
    const { reason } = lease.signal;
    return lease.signal.aborted ? invocation.report(reason) : exitCode;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const detail = `${program}: ${(error as Error).message}`;
    invocation.report(new ThrottrError("command_failed", detail));
    return code === "ENOENT" ? NOT_FOUND : NOT_RUNNABLE;
  } finally {
    stopPassing();
    killer();
    await release(invocation, lease);
  }
}

function endOf(child: ChildProcess): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (exitCode, signal) => {
      resolve(exitCode ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

/** Ends the command when it does not hold the lease any more. Gives what stops the looking. */
function endAtLoss(child: ChildProcess, lease: HeldLease, { output }: Invocation): () => void {
  let timer: NodeJS.Timeout | undefined;
  const onLoss = (): void => {
    output.note(output.bad("the lease is lost, the command is ended"));
    child.kill("SIGTERM");
    timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  };
  if (lease.signal.aborted) onLoss();
  else lease.signal.addEventListener("abort", onLoss);
  return () => {
    lease.signal.removeEventListener("abort", onLoss);
    clearTimeout(timer);
  };
}

/** Passes SIGINT and SIGTERM on. What is typed at a terminal has reached the command already. */
function passSignals(child: ChildProcess, { run, host }: Invocation): () => void {
  let signal: AbortSignal;
  const onAbort = (): void => {
    const name = signal.reason as NodeJS.Signals;
    if (name !== "SIGINT" || host.stdin.isTTY !== true) child.kill(name);
    listen();
  };
  const listen = (): void => {
    signal = run.renewSignal();
    signal.addEventListener("abort", onAbort, { once: true });
  };
  listen();
  return () => signal.removeEventListener("abort", onAbort);
}

/** A lease that can't be released ends by itself: that is no failure of the command. */
async function release({ output }: Invocation, lease: HeldLease): Promise<void> {
  if (!lease.isHeld) return;
  try {
    await lease.release();
  } catch (error) {
    const { code, message } = failureOf(error);
    output.note(`the lease could not be released, it ends by itself: ${code}: ${message}`);
  }
}
