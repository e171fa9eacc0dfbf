/** The edge dialect, which operations are frames of, as the server reads it: a client needs none of its layouts. */
import { protocolByName } from "../throttr/protocol.ts";

export const EDGE = protocolByName("edge", undefined)!;
