/**
 * Refuser: answers frames of a Throttr protocol on keys that an access does not allow, in place of a shard.
 *
 * Shards know no rights. A frame that is refused among others takes its place in the order of the replies, and the
 * others are executed: that is what clients on a connection expect of every reply with a status.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import { COMMANDS_START, writeError } from "../wire/edge/command.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf, STATUS_FAILURE, type Layout } from "../wire/throttr/requests.ts";
import {
  isUnrestricted,
  missingRightError,
  missingRightOfFrame,
  type Access,
} from "../base/access.ts";
import type { Frames } from "./sink.ts";

/** Null when no frame of the run can be refused: most tokens have no prefixes, and their frames are not looked at. */
export function refuserFor({ protocol, isAllowed }: Frames, access: Access): Refuser | null {
  if (isAllowed === true || isUnrestricted(access, protocol)) return null;
  return new Refuser(protocol, access);
}

/** For one run. It allocates nothing before a frame is refused. */
export class Refuser {
  readonly #access: Access;
  readonly #requestIdBytes: number;
  readonly #layouts: readonly (Layout | undefined)[];

  constructor(protocol: Protocol, access: Access) {
    this.#access = access;
    this.#requestIdBytes = protocol.requestIdBytes;
    this.#layouts = layoutsOf(protocol);
  }

  /** Whether the access lacks a right to the frame at `at`. */
  isRefused(bytes: Uint8Array, at: number): boolean {
    return missingRightOfFrame(this.#access, this.#layouts[bytes[at]!]!, bytes, at) !== null;
  }

  /**
   * Writes the reply to the frame at `at`, which is refused: a failure as the protocol knows it, without a reason; for
   * commands of the edge dialect an error with its code.
   */
  write(out: ByteWriter, bytes: Uint8Array, at: number): void {
    const type = bytes[at]!;
    if (type < COMMANDS_START) {
      out.copy(bytes, at + 1, at + 1 + this.#requestIdBytes);
      out.u8(STATUS_FAILURE);
      return;
    }
    const layout = this.#layouts[type]!;
    const missing = missingRightOfFrame(this.#access, layout, bytes, at)!;
    writeError(out, missingRightError(missing, layout, this.#access).message);
  }
}
