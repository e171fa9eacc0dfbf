/** The calls of one client on semaphores, as its history has them. */
import type { History } from "../../checks/history.ts";
import type {
  SemaphoreCall,
  SemaphoreOperation,
  SemaphoreOutcome,
} from "../../checks/semaphore-calls.ts";
import type { World } from "../../world.ts";
import type { Port } from "../port.ts";
import { callLease, type Told } from "./leases.ts";

/** By then nothing is left of a request whose connection has ended, or that was given up. */
const SETTLED_MS = 240_000;

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
    if (told !== "unknown") {
      this.#history.end(call, told);
      return;
    }
    this.#history.giveUp(call);
    this.#world.time.after(SETTLED_MS, () => this.#history.settle(call));
  }

  async lease(port: Port, operation: SemaphoreOperation): Promise<Told> {
    const call = this.begin(port.door, null, operation);
    const told = await callLease(port, operation);
    this.end(call, told);
    return told;
  }
}
