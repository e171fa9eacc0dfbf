/**
 * Structured log lines: one JSON object each, with the name of an event of `log-events.ts`. Workers Logs index the fields
 * of such lines, so that an event can be searched for and counted.
 */
import type { ErrorEvent, FieldsOf, WarningEvent } from "./log-events.ts";

/** Something went wrong that the server deals with by itself. */
export function logWarning<Event extends WarningEvent>(
  event: Event,
  fields: FieldsOf<Event>,
): void {
  console.warn(JSON.stringify({ event, ...fields }));
}

/** An operator has to do something. */
export function logError<Event extends ErrorEvent>(event: Event, fields: FieldsOf<Event>): void {
  console.error(JSON.stringify({ event, ...fields }));
}
