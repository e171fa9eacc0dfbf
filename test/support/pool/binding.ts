/** The service binding of the server under test, as Workers of callers have it. */
import { exports } from "cloudflare:workers";
import type { Throttr } from "../../../src/worker/rpc.ts";
import { concat } from "../frames/bytes.ts";
import { type CommandReply, commandReplies } from "../frames/commands.ts";

export type Stub = Service<typeof Throttr>;

/** The binding without props. */
export const throttr = exports.Throttr as unknown as Stub;

const bind = exports.Throttr as unknown as (options: { props: object }) => Stub;

/** The binding with props, whether the server can read them or not. */
export const withProps = (props: object): Stub => bind({ props });

/** A binding to a namespace, with all rights unless the other props say less. */
export const open = (namespace: string, props: object = {}): Stub =>
  withProps({ namespace, ...props });

/** Sends frames of the edge dialect in one exchange, and reads a reply to each. */
export async function send(stub: Stub, ...frames: Uint8Array[]): Promise<CommandReply[]> {
  return commandReplies(await stub.exchange(concat(frames)));
}

/** Sends one frame of the edge dialect. */
export const one = async (stub: Stub, frame: Uint8Array): Promise<CommandReply> =>
  (await send(stub, frame))[0]!;
