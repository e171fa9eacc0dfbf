/**
 * The yrmcds protocol as one door speaks it.
 *
 * Today's servers and the protocol's document differ in one reply, an entry of Dump. Clients exist for both.
 */
import type { DumpForm } from "./dump.ts";

/** A protocol that a door speaks. `code` is its byte wherever a protocol is stored or sent. */
export interface YrmcdsProtocol {
  readonly code: number;
  readonly dialect: "yrmcds";
  readonly dumpForm: DumpForm;
}

/** By the names that ports and paths use. */
export const YRMCDS_PROTOCOLS: Readonly<Record<string, YrmcdsProtocol>> = {
  yrmcds: { code: 0x60, dialect: "yrmcds", dumpForm: "document" },
  "yrmcds/today": { code: 0x61, dialect: "yrmcds", dumpForm: "today" },
};
