/**
 * Semaphores: what is in use is the sum of what living holders hold, and never above a maximum that was granted. Connections and
 * leases share the same semaphores. Written from docs/semaphores.md and docs/protocol.md.
 */
import { describeCall, isAnswered, type Moment, type Violation } from "./history.ts";
import { checkListing } from "./listings.ts";
import type { SemaphoreCall, SemaphoreRow, SemaphoreRules } from "./semaphore-calls.ts";
import { SemaphoreCheck, SEMAPHORES } from "./semaphore-check.ts";
import type { Facts } from "./facts.ts";

/** All semaphores of a run. Calls are in the order in which they began; those of a connection in which they were sent. */
export function checkSemaphores(
  calls: readonly SemaphoreCall[],
  facts: Facts,
  rules: SemaphoreRules,
): Violation[] {
  const semaphores = new Map<string, SemaphoreCheck>();
  for (const [name, own] of callsByName(calls)) {
    semaphores.set(name, new SemaphoreCheck(name, own, facts, rules));
  }
  const violations: Violation[] = [];
  for (const semaphore of semaphores.values()) violations.push(...semaphore.check());
  for (const call of calls) {
    if (!isAnswered(call) || typeof call.outcome !== "object") continue;
    if ("rows" in call.outcome) {
      violations.push(...checkRows(call, call.outcome.rows, semaphores, facts, rules));
    } else if ("objects" in call.outcome) {
      violations.push(...checkObjects(call, call.outcome.objects, semaphores));
    }
  }
  return violations;
}

function callsByName(calls: readonly SemaphoreCall[]): Map<string, SemaphoreCall[]> {
  const byName = new Map<string, SemaphoreCall[]>();
  for (const call of calls) {
    if (call.outcome === "refused" || !("name" in call.operation)) continue;
    const { name } = call.operation;
    const own = byName.get(name);
    if (own === undefined) byName.set(name, [call]);
    else own.push(call);
  }
  return byName;
}

function checkRows(
  call: SemaphoreCall,
  rows: readonly SemaphoreRow[],
  semaphores: ReadonlyMap<string, SemaphoreCheck>,
  facts: Facts,
  rules: SemaphoreRules,
): Violation[] {
  const { operation, begun } = call;
  if (operation.type !== "list") return [];
  const ended = call.ended!;
  const sinceOf = (name: string): Moment => facts.staleSince(rules.shardOf(name), begun, ended);
  const what = `${describeCall(call)}: the list of semaphores`;
  const violations = checkListing(
    {
      what,
      begun,
      ended,
      isComplete: true,
      rows: rows.map(({ name }) => name),
      includes: (name) => name.startsWith(operation.prefix),
      mayRepeat: (name) => operation.isDump && facts.wasAway(rules.shardOf(name), begun, ended),
    },
    {
      keys: semaphores.keys(),
      isThroughout: (name) => semaphores.get(name)!.isSurelyInUse(sinceOf(name), ended),
      isPossible: (name) => semaphores.get(name)?.mayExist(ended) ?? false,
    },
  );
  for (const { name, consumption, mostHeld } of rows) {
    const semaphore = semaphores.get(name);
    semaphore?.checkFigures(call, sinceOf(name), ended, consumption, mostHeld);
    violations.push(...(semaphore?.takeViolations() ?? []));
  }
  return violations;
}

/** Stats counts the semaphores that there are. */
function checkObjects(
  call: SemaphoreCall,
  objects: number,
  semaphores: ReadonlyMap<string, SemaphoreCheck>,
): Violation[] {
  const ended = call.ended!;
  let [least, most] = [0, 0];
  for (const semaphore of semaphores.values()) {
    if (semaphore.isSurelyInUse(call.begun, ended)) least++;
    if (semaphore.mayExist(ended)) most++;
  }
  if (objects >= least && objects <= most) return [];
  const message = `${describeCall(call)}: Stats has ${objects} objects, expected ${least} to ${most}`;
  return [{ promise: SEMAPHORES, subject: "Stats", message }];
}
