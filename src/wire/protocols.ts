/** All protocols that doors speak. */
import type { Framing } from "./framing.ts";
import { ThrottrFraming } from "./throttr/framing.ts";
import { protocolByCode, type Protocol } from "./throttr/protocol.ts";
import { YRMCDS_PROTOCOLS, type YrmcdsProtocol } from "./yrmcds/dialect.ts";
import { YrmcdsFraming } from "./yrmcds/framing.ts";

/** They are told apart by `dialect`. */
export type AnyProtocol = Protocol | YrmcdsProtocol;

/** The protocol a code stands for, or undefined for a code that this release does not know. */
export function anyProtocolByCode(code: number): AnyProtocol | undefined {
  return (
    protocolByCode(code) ?? Object.values(YRMCDS_PROTOCOLS).find((known) => known.code === code)
  );
}

const framings = new Map<number, Framing>();

/** The framing of a protocol; one object for each. */
export function framingOf(protocol: AnyProtocol): Framing {
  let framing = framings.get(protocol.code);
  if (framing === undefined) {
    framing = protocol.dialect === "yrmcds" ? new YrmcdsFraming() : new ThrottrFraming(protocol);
    framings.set(protocol.code, framing);
  }
  return framing;
}
