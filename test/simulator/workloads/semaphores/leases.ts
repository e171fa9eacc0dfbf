/** Calls on leases as simulated clients make them, and what their replies say. */
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import * as operations from "../../../../src/wire/edge/operations.ts";
import { ThrottrError } from "../../../../src/wire/edge/error.ts";
import type { Lease } from "../../../../src/wire/edge/semaphores.ts";
import type {
  HolderRow,
  SemaphoreOperation,
  SemaphoreOutcome,
  SemaphoreRow,
} from "../../checks/semaphore-calls.ts";
import type { Answer, Port } from "../port.ts";

/** What a call came to: an outcome, or none. */
export type Told = SemaphoreOutcome | "unknown" | "refused";

const decoder = new TextDecoder();

/** Makes a call, of as many messages as it takes. */
export async function callLease(port: Port, operation: SemaphoreOperation): Promise<Told> {
  switch (operation.type) {
    case "acquire lease": {
      const { name, leaseId, resources, maximum, ttlMs } = operation;
      const asked = operations.acquire(name, { leaseId, resources, maximum, ttlMs });
      return await tell(port, asked, (lease) => leaseOutcome(lease, "unavailable"));
    }
    case "renew lease": {
      const asked = operations.renew(operation.name, operation.leaseId, { ttlMs: operation.ttlMs });
      return await tell(port, asked, (lease) => leaseOutcome(lease, "absent"));
    }
    case "release lease": {
      const asked = operations.release(operation.name, operation.leaseId);
      return await tell(port, asked, (isReleased) => (isReleased ? "released" : "absent"));
    }
    case "restore lease": {
      const { isReplacing, endsAtMs: expiresAtMs, ...lease } = operation;
      const policy = isReplacing ? "replace" : "keep";
      const asked = operations.restoreLease({ ...lease, expiresAtMs }, { policy });
      return await tell(port, asked, (result) => result);
    }
    case "get":
      return await tell(port, operations.inspectSemaphore(operation.name), (state) =>
        state === null ? "not found" : { consumption: state.consumption, mostHeld: state.mostHeld },
      );
    case "holders":
      return await listHolders(port, operation.name);
    case "list":
      return await listSemaphores(port, operation.prefix);
    default:
      throw new Error(`${operation.type} is no call on leases`);
  }
}

const leaseOutcome = (lease: Lease | null, none: "unavailable" | "absent"): SemaphoreOutcome =>
  lease === null ? none : { endsAtMs: lease.expiresAtMs };

async function tell<Result>(
  port: Port,
  operation: Operation<Result>,
  outcomeOf: (result: Result) => SemaphoreOutcome,
): Promise<Told> {
  const [answer] = await port.exchange([operation]);
  const result = resultOf(port, operation, answer!);
  return result === "unknown" || result === "refused" || result === "no room"
    ? result
    : outcomeOf(result.value);
}

function resultOf<Result>(
  { failures }: Port,
  operation: Operation<Result>,
  answer: Answer,
): { readonly value: Result } | "unknown" | "refused" | "no room" {
  if (answer.kind !== "reply") return answer.kind;
  try {
    return { value: failures.read("leases", () => operation.read(answer.reply)) };
  } catch (error) {
    if (!(error instanceof ThrottrError)) throw error;
    const { code } = error;
    if (code === "shard_full") return "no room";
    return code === "outcome_unknown" || code === "internal_error" ? "unknown" : "refused";
  }
}

/** All pages: what is there from the first to the last is in them. A listing that breaks off says nothing. */
async function listHolders(port: Port, name: string): Promise<Told> {
  const holders: HolderRow[] = [];
  for (let cursor: Uint8Array | undefined; ;) {
    const operation = operations.holders(name, cursor === undefined ? {} : { cursor });
    const [answer] = await port.exchange([operation]);
    const page = resultOf(port, operation, answer!);
    if (typeof page === "string") return "refused";
    for (const { kind, id, resources } of page.value.holders) {
      holders.push({ id: kind === "connection" ? id.replaceAll("-", "") : id, resources });
    }
    if (page.value.cursor === null) return { holders };
    cursor = page.value.cursor;
  }
}

async function listSemaphores(port: Port, prefix: string): Promise<Told> {
  const rows: SemaphoreRow[] = [];
  for (let cursor: Uint8Array | undefined; ;) {
    const operation = operations.semaphores(cursor === undefined ? { prefix } : { prefix, cursor });
    const [answer] = await port.exchange([operation]);
    const page = resultOf(port, operation, answer!);
    if (typeof page === "string") return "refused";
    for (const { name, consumption, mostHeld } of page.value.semaphores) {
      rows.push({ name: decoder.decode(name), consumption, mostHeld });
    }
    if (page.value.cursor === null) return { rows };
    cursor = page.value.cursor;
  }
}
