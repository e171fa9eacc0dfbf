/** All protocols that doors speak. */
import { protocolByCode, type Protocol } from "./throttr/protocol.ts";
import { YRMCDS_PROTOCOLS, type YrmcdsProtocol } from "./yrmcds/dialect.ts";

/** They are told apart by `dialect`. */
export type AnyProtocol = Protocol | YrmcdsProtocol;

/** The protocol a code stands for, or undefined for a code that this release does not know. */
export function anyProtocolByCode(code: number): AnyProtocol | undefined {
  return (
    protocolByCode(code) ?? Object.values(YRMCDS_PROTOCOLS).find((known) => known.code === code)
  );
}
