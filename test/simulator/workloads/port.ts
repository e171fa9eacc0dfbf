/** The way of a client to the server: it carries frames, and tells what became of each. */
import type { Door } from "../checks/history.ts";
import type { Operation } from "../../../src/wire/edge/operation.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Failures } from "../failures.ts";
import type { World } from "../world.ts";
import type { Protocol } from "./wire.ts";

/** What a client learned of one frame. */
export type Answer =
  | { readonly kind: "reply"; readonly reply: Uint8Array }
  /** Certainly not applied; the code that says so. */
  | { readonly kind: "refused"; readonly code: string }
  /** It may have been applied, or may yet be. */
  | { readonly kind: "unknown"; readonly reason: string };

export interface Port {
  readonly door: Door;
  /** Changes with each body or connection: frames of one are in order. */
  readonly connection: number;
  /** Sends frames in one message. Resolves when each has an answer, or never will have. */
  exchange(operations: readonly Operation<unknown>[]): Promise<readonly Answer[]>;
  /** Hears of replies that refuse. */
  readonly failures: Failures;
  close(): void;
  /** The server has closed the present connection, which can still send: see `Pipe.isClosed`. False where ports have none. */
  readonly isClosed: boolean;
  /** Called when that has come to be. */
  onCloseLeft: () => void;
}

/** @param protocol that its frames are of; the edge dialect unless given */
export type OpenPort = (
  world: World,
  client: RunningLife,
  random: Random,
  protocol?: Protocol,
) => Port;
