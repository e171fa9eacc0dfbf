/** The calls of one client on semaphores, as its history has them. */
import type { History } from "../../checks/history.ts";
import type {
  SemaphoreCall,
  SemaphoreOperation,
  SemaphoreOutcome,
} from "../../checks/semaphore-calls.ts";
import type { World } from "../../world.ts";
import { giveUp } from "../give-up.ts";
import type { Port } from "../port.ts";
import { callLease, type Told } from "./leases.ts";

/** Notes calls and what they came to. */
export class Calls {
  readonly #world: World;
  readonly #history: History<SemaphoreOperation, SemaphoreOutcome>;
  readonly #client: number;
  made = 0;

  constructor(
    world: World,
    history: History<SemaphoreOperation, SemaphoreOutcome>,
    client: number,
  ) {
    this.#world = world;
    this.#history = history;
    this.#client = client;
  }

  begin(
    door: Port["door"],
    connection: number | null,
    operation: SemaphoreOperation,
  ): SemaphoreCall {
    this.made++;
    this.#world.operations++;
    return this.#history.begin({ client: this.#client, door, connection, operation });
  }

  end(call: SemaphoreCall, told: Told): void {
    if (told === "unknown") giveUp(this.#world, this.#history, call);
    else this.#history.end(call, told);
  }

  async lease(port: Port, operation: SemaphoreOperation): Promise<Told> {
    const call = this.begin(port.door, null, operation);
    const told = await callLease(port, operation);
    this.end(call, told);
    return told;
  }
}
