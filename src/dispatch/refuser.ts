/** Refuser: answers frames of a Throttr protocol on keys that an access does not allow. */
import type { ByteWriter } from "../wire/bytes.ts";
import { COMMANDS_START, writeError } from "../wire/edge/command.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf, STATUS_FAILURE, type Layout } from "../wire/throttr/requests.ts";
import { refusalOf, refusalText, type Access } from "../base/access.ts";

export class Refuser {
  readonly #access: Access;
  readonly #requestIdBytes: number;
  readonly #layouts: readonly (Layout | undefined)[];

  constructor(protocol: Protocol, access: Access) {
    this.#access = access;
    this.#requestIdBytes = protocol.requestIdBytes;
    this.#layouts = layoutsOf(protocol);
  }

  isRefused(bytes: Uint8Array, at: number): boolean {
    return refusalOf(this.#access, this.#layouts[bytes[at]!]!, bytes, at) !== null;
  }

  /** Writes the reply to the frame at `at`, which is refused. */
  write(out: ByteWriter, bytes: Uint8Array, at: number): void {
    const type = bytes[at]!;
    if (type < COMMANDS_START) {
      out.copy(bytes, at + 1, at + 1 + this.#requestIdBytes);
      out.u8(STATUS_FAILURE);
      return;
    }
    const layout = this.#layouts[type]!;
    writeError(out, refusalText(refusalOf(this.#access, layout, bytes, at)!, layout));
  }
}
