/**
 * What scenarios are written against. A scenario runs unchanged on workerd and in the simulator, and notes what happened;
 * both must note the same, which is written down beside it. So the simulator can't drift from the platform.
 */
import type { Probes, Visit } from "./probes/calls.ts";

/** What happened, in order, by the party that noted it. The order between two parties depends on speed and is left open. */
export type Transcript = Readonly<Record<string, readonly string[]>>;

export interface Scenario {
  /** A sentence: what holds on the platform. */
  readonly title: string;
  /** The first one runs, then the process of all objects is killed and started again, then the next one runs. */
  readonly phases: readonly ((lab: Lab) => Promise<void>)[];
  readonly expected: Transcript;
}

export interface Lab {
  /** A new stub of an object of this scenario. */
  stub<Kind extends keyof Probes>(kind: Kind, name?: string): Probes[Kind];
  /** Opens a WebSocket to an object of this scenario. What happens to it is noted by the party `name`. */
  connect(kind: keyof Probes, path: string, name: string): Promise<LabSocket>;
  /** A client asks the door of the probes for something, over HTTP or by a WebSocket. */
  visit(what: Visit): void;
  /** The client sends a frame that no WebSocket may. */
  breakFrame(): void;
  /** The client resets its connection. */
  leave(): void;
  note(party: string, line: string): void;
  /** Waits until a party has noted a line as often as `times` says. */
  until(party: string, line: string, times?: number): Promise<void>;
  wait(ms: number): Promise<void>;
  /** Ends the instance of an object as the platform does when it is idle: calls, timers and `waitUntil` end first. */
  evict(kind: keyof Probes): Promise<void>;
  /** Ends all objects at once, as a deployment or a fault of the machine does. */
  abortAll(): Promise<void>;
}

export const pathOfVisit = (scenario: string, what: Visit): string =>
  `/${scenario}/visit/${encodeURIComponent(what)}`;

/** A client's end of a WebSocket. */
export interface LabSocket {
  send(message: string | Uint8Array): void;
  close(code: number, reason: string): void;
  readonly readyState: number;
}

/** What a lab reaches an object by, to open a WebSocket. */
interface SocketHost {
  fetch(
    url: string,
    init: { readonly headers: Readonly<Record<string, string>> },
  ): Promise<{ readonly webSocket: NewSocket | null }>;
}

interface NewSocket extends LabSocket {
  accept(): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: CloseEvent) => void): void;
}

interface CloseEvent {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

/** Opens a WebSocket to an object; what happens to it is noted by the party `name`. */
export async function openSocket(
  host: SocketHost,
  path: string,
  name: string,
  note: Lab["note"],
): Promise<LabSocket> {
  const response = await host.fetch(`http://host${path}`, { headers: { Upgrade: "websocket" } });
  const socket = response.webSocket!;
  socket.accept();
  socket.addEventListener("message", ({ data }) => note(name, String(data)));
  socket.addEventListener("close", ({ code, reason, wasClean }) => {
    note(name, `close ${code} ${reason} ${wasClean ? "clean" : "unclean"}`);
  });
  return socket;
}

/** Notes, as party `party`, what came of a call: its value, or its error. */
export async function tell(lab: Lab, party: string, call: Promise<unknown>): Promise<void> {
  try {
    lab.note(party, textOf(await call));
  } catch (error) {
    lab.note(party, errorText(error));
  }
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined");

/** What the platform adds to errors that reach the caller of an object. */
const FLAGS = ["retryable", "overloaded", "remote", "durableObjectReset"] as const;

/** An error with what the platform says about it, such as `Error: too slow (retryable)`. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return `not an error: ${String(error)}`;
  const flags = FLAGS.filter((flag) => Reflect.get(error, flag) === true);
  return `${error.name}: ${error.message}${flags.length === 0 ? "" : ` (${flags.join(", ")})`}`;
}

/** What callers of an object get whose commit has failed because a deferred constraint was violated. */
export const COMMIT_FAILED =
  "Error: Durable Object was reset and rolled back to its last known good state because the application left the " +
  "database in a state where constraints were violated: FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: " +
  "SQLITE_CONSTRAINT_FOREIGNKEY)";

/** How a socket's peer learns that the object is gone. */
export const CUT = "close 1006 WebSocket disconnected without sending Close frame. unclean";
