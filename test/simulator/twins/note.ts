/**
 * The transcript of a scenario: what probes and scenarios note, in the order in which it happened.
 *
 * A line goes to the console, where each platform's lab reads it. A message to an object would not do: whether messages
 * leave an object is a part of what the scenarios show.
 */

/** What a line of the transcript begins with on the console. */
export const NOTE = "note ";

export interface Noted {
  readonly party: string;
  readonly line: string;
}

/** What was noted in this isolate. */
export const notes: Noted[] = [];

export function note(party: string, line: string): void {
  const noted = { party, line };
  notes.push(noted);
  console.log(NOTE + JSON.stringify(noted));
}

/** The line at which the process of all objects is killed: nothing behind it happens. */
export const KILLED = "is killed";

/**
 * What workerd's lab notes as a party of that name, for the process outside, which has the clients: it opens a connection for a path,
 * sends a frame on it that no WebSocket may, and resets it.
 */
export const CLIENTS = "clients";
export const VISIT = "visit ";
export const BREAK = "break a frame";
export const LEAVE = "leave";

/** What a lab notes around a phase: nothing before and behind it belongs to the transcript. */
export const BEGUN = { party: "lab", line: "has begun" } as const;
export const ENDED = { party: "lab", line: "has ended" } as const;
