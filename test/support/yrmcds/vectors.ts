/** Recorded exchanges of yrmcds servers, and what of a reply must be as it was recorded. */
import { isContinued, ReplyReader, statsOf, type YrmcdsReply } from "../frames/yrmcds.ts";
import { hex, unhex } from "../frames/index.ts";

export interface YrmcdsStep {
  readonly name: string;
  readonly scenario: string;
  readonly conn: string;
  /** `poll`: sent again until the answer is as recorded. */
  readonly op: "send" | "poll" | "open" | "close" | "rst";
  readonly request_hex: string;
  readonly response_hex: string;
  readonly compare?: "exact" | "stats" | "dump";
  /** Names of a Dump's entries that count begin with this. */
  readonly prefix?: string;
}

/** Steps by scenario, in order. */
export function yrmcdsScenarios(lines: string): Map<string, YrmcdsStep[]> {
  const steps = lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as YrmcdsStep);
  return Map.groupBy(steps, ({ scenario }) => scenario);
}

/** The recorded replies; none when nothing was answered. */
export function recordedReplies({ response_hex }: YrmcdsStep): YrmcdsReply[] {
  return new ReplyReader().push(unhex(response_hex));
}

/** What of replies to a step is compared. */
export function comparedReplies(step: YrmcdsStep, replies: readonly YrmcdsReply[]): unknown {
  if (step.compare === "stats") {
    return replies.map((reply) => {
      const { magic, opcode, status, reserved, opaque } = reply;
      return { magic, opcode, status, reserved, opaque, items: Object.keys(statsOf(reply)) };
    });
  }
  if (step.compare !== "dump") return replies.map(({ bytes }) => hex(bytes));
  const wanted = hex(new TextEncoder().encode(step.prefix));
  const entries = replies.filter(isContinued).map(({ bytes }) => hex(bytes));
  return {
    entries: entries.filter((entry) => entry.includes(wanted)).toSorted(),
    last: replies.filter((reply) => !isContinued(reply)).map(({ bytes }) => hex(bytes)),
  };
}
