/**
 * A listener of Server-Sent Events: a connection that sends nothing and is pushed the messages of one channel.
 *
 * It may have listened before. Then it is given what it has missed, as far as the channel's group has kept it, and
 * nothing twice: messages are pushed from the moment of its subscription on, so those that arrive before the group has
 * answered are held back, and those that the group has included in its answer are dropped.
 */
import { bridgeMessage } from "../../wire/bridge.ts";
import { eventRecords, startRecord } from "../../wire/events.ts";
import { forEachMessage, type Batch, type Pushes } from "../../wire/messages.ts";
import type { Listened } from "../../base/calls/channel.ts";

/** Of one connection. It keeps a number alone: what is held back is in `HeldPushes`. */
export class EventListener {
  /** Number of the last message that the listener has, or that came before its start; null before the start. */
  lastNumber: number | null;

  /** @param lastNumber of a listener that was stored */
  constructor(lastNumber: number | null) {
    this.lastNumber = lastNumber;
  }

  /** What the listener is sent first: the messages that it has missed, and where its stream begins. */
  start({ sequence, replayFrom, replay }: Listened): Pushes[] {
    this.lastNumber = sequence;
    const first = eventPushes(startRecord(sequence), NOTHING);
    return replay.length === 0
      ? [first]
      : [this.pushesOf({ sequence: replayFrom, messages: replay }), first];
  }

  /**
   * The records of `text/event-stream` for messages; with their numbers as ids, which a browser sends again as `Last-
   * Event-ID`.
   */
  pushesOf({ sequence, messages }: Batch): Pushes {
    return eventPushes(eventRecords(sequence, messages), messages);
  }

  /**
   * Whether the listener has these messages already, they were published before it came, or it has later ones: what a group
   * had under way when it was reset can come behind messages of its next life.
   */
  isKnown(sequence: number | null): boolean {
    if (this.lastNumber === null) return false;
    return sequence === null || sequence <= this.lastNumber;
  }

  /** The listener is sent messages: the number of the first one, and how many. */
  note(sequence: number, count: number): void {
    this.lastNumber = sequence + count - 1;
  }
}

const NOTHING = new Uint8Array(0);

/** Events go over the Worker's bridge, like the bytes of TCP. */
function eventPushes(records: Uint8Array, messages: Uint8Array): Pushes {
  const isPushed: boolean[] = [];
  let payloadBytes = 0;
  forEachMessage(messages, (_, length) => {
    isPushed.push(true);
    payloadBytes += length;
  });
  return { bytes: bridgeMessage(0, records), payloadBytes, isPushed };
}
