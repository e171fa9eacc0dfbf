/** What a client can say of records over its way: the dialects of its requests, and the sizes of their values. */
import { protocolByName, type Protocol } from "../../../../src/wire/throttr/protocol.ts";
import type { RecordOperation } from "../../../support/models/record.ts";
import {
  dialect73,
  DIALECT_2,
  EDGE as EDGE_DOOR,
  protocolIn,
  type Protocol as Wire,
} from "../wire.ts";

export interface Speech {
  /** Where a door speaks it. */
  readonly wire: Wire;
  readonly protocol: Protocol;
  readonly dialects: readonly RecordOperation["dialect"][];
}

/** Commands, and requests of dialect 7.3 beside them. */
export const EDGE: Speech = {
  wire: EDGE_DOOR,
  protocol: protocolByName("edge", undefined)!,
  dialects: ["edge", "throttr"],
};
/** The calls of the package's client. */
export const CALLS: Speech = { ...EDGE, dialects: ["edge"] };
export const PAIRS: Speech = {
  wire: DIALECT_2,
  protocol: protocolByName("2", undefined)!,
  dialects: ["pairs"],
};

const in73 = (valueBytes: 1 | 2 | 4 | 8): Speech => ({
  wire: dialect73(valueBytes),
  protocol: protocolByName("7.3", `uint${8 * valueBytes}`)!,
  dialects: ["throttr"],
});
/** The same where clients of a namespace speak it. */
export const speechIn = (namespace: string, speech: Speech): Speech => ({
  ...speech,
  wire: protocolIn(namespace, speech.wire),
});

/** What is spoken less often than the edge dialect. */
export const OTHERS: readonly Speech[] = [in73(1), in73(2), in73(4), in73(8), PAIRS];
