/** Which messages of the workload each call to a Hub carried. */
import { forEachDelivery, forEachPublication } from "../../../../src/wire/channel-batch.ts";
import { forEachMessage, type Batch } from "../../../../src/wire/messages.ts";
import type { Carriage } from "../../checks/channel-calls.ts";
import type { ObjectCall } from "../../checks/facts.ts";
import { messageOfPayload } from "./frames.ts";

export const carriagesOf = (calls: readonly ObjectCall[]): Carriage[] =>
  calls.flatMap((call) =>
    payloadsOf(call).flatMap((payload) => {
      const message = messageOfPayload(payload);
      return message === null ? [] : [{ message, call }];
    }),
  );

/** `deliver` and `deliverToOwner` are calls of release 0.4.0, which takes the messages of one channel at a time. */
function payloadsOf({ method, parameters }: ObjectCall): Uint8Array[] {
  switch (method) {
    case "deliverAll": {
      const payloads: Uint8Array[] = [];
      forEachDelivery(parameters[0] as Uint8Array, (_channel, _sequence, messages) => {
        payloads.push(...split(messages));
      });
      return payloads;
    }
    case "deliverToOwners": {
      const publications = parameters[0] as Uint8Array;
      const payloads: Uint8Array[] = [];
      forEachPublication(publications, (_, at, length) => {
        payloads.push(publications.subarray(at, at + length));
      });
      return payloads;
    }
    case "deliver":
      return (parameters[1] as readonly Batch[]).flatMap(({ messages }) => split(messages));
    case "deliverToOwner":
      return split(parameters[1] as Uint8Array);
    default:
      return [];
  }
}

function split(messages: Uint8Array): Uint8Array[] {
  const payloads: Uint8Array[] = [];
  forEachMessage(messages, (at, length) => payloads.push(messages.subarray(at, at + length)));
  return payloads;
}
