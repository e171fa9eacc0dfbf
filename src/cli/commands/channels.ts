/** `publish` and `subscribe`: messages on channels. A channel exists while it has subscribers; nothing creates it. */
import { addAbortSignal } from "node:stream";
import { Option, type Command } from "commander";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Message } from "../../client/channels/subscription.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  wholeArgument,
  type EncodingOptions,
} from "../options.ts";
import { valueOfArgument } from "../standard-input.ts";
import { jsonBytes, shownBytes, shownPayload } from "../text.ts";
import { LineError } from "../transfer/format.ts";
import { linesOf, type Line } from "../transfer/lines.ts";

/** Stands before the line feed in files of Windows. */
const CARRIAGE_RETURN = 0x0d;

interface PublishOptions extends EncodingOptions {
  readonly lines?: boolean;
}

interface SubscribeOptions extends EncodingOptions {
  readonly count?: number;
  readonly raw?: boolean;
}

/** The commands of this file, in the order of `--help`. */
export const CHANNELS: readonly AddCommand[] = [addPublish, addSubscribe];

function addPublish(program: Command): void {
  const command = program
    .command("publish")
    .description("publish a message; exits with 0 with or without subscribers")
    .argument("<channel>")
    .argument("[payload]", "the payload; - or no payload reads standard input")
    .option("--lines", "publish each line of standard input as one message")
    .action(
      action<PublishOptions, [string, string | undefined]>(
        async (invocation, options, name, text) => {
          const channel = bytesGiven(name, options);
          if (options.lines === true) return await publishLines(invocation, channel, text);
          const { client, output, call } = invocation;
          const payload = await valueOfArgument(invocation, options, "payload", text);
          const delivered = await client.publish(channel, payload, call);
          await output.print(
            { ...jsonBytes("channel", channel), bytes: payload.length, delivered },
            () =>
              delivered ? output.good("delivered") : "published; the channel has no subscribers",
          );
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "channel and payload"));
}

/** Publishes each line as a message, one after the other: their order is kept. */
async function publishLines(
  { client, output, call, host, run, signal }: Invocation,
  channel: Uint8Array,
  text: string | undefined,
): Promise<void> {
  if (text !== undefined && text !== "-") {
    throw new UsageError(
      "payload_invalid",
      "payload: --lines reads standard input, so an argument is not allowed",
    );
  }
  if (run.isPrompt)
    throw new UsageError(
      "value_missing",
      "--lines: not available at the prompt, which uses standard input itself",
    );
  let published = 0;
  let delivered = 0;
  try {
    for await (const lines of linesOf(addAbortSignal(signal, host.stdin))) {
      for (const line of lines) {
        published++;
        if (await client.publish(channel, payloadOf(line), call)) delivered++;
      }
    }
  } catch (error) {
    if (signal.aborted) throw new ThrottrError("aborted", "publishing was interrupted");
    throw error instanceof LineError ? new UsageError("payload_invalid", error.message) : error;
  }
  await output.print(
    { ...jsonBytes("channel", channel), published, delivered },
    () => `${published} published, ${delivered} delivered`,
  );
}

/** A line without its line end, which may be CR LF. */
function payloadOf({ bytes, isWhole }: Line): Uint8Array {
  return isWhole && bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes;
}

function addSubscribe(program: Command): void {
  const command = program
    .command("subscribe")
    .description("print the messages of channels until Ctrl-C, or until --count messages")
    .argument("<channels...>")
    .option("--count <n>", "stop after this many messages", wholeArgument(1))
    .addOption(
      new Option("--raw", "print payloads as they are, each followed by a line feed").conflicts(
        "json",
      ),
    )
    .action(
      action<SubscribeOptions, [readonly string[]]>(async (invocation, options, names) => {
        const channels = names.map((name) => bytesGiven(name, options));
        await new Listening(invocation, options).listen(channels);
        return invocation.signal.aborted ? ExitCode.interrupted : ExitCode.done;
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "channels"));
}

/** The subscriptions of one command: they end together, by interruption or by the last message. */
class Listening {
  readonly #invocation: Invocation;
  /** Prints payloads without anything around them. */
  readonly #isRaw: boolean;
  /** How many messages are still to be printed. */
  #missing: number;
  /** Ends all subscriptions after the last message, or when one of them fails. */
  readonly #ending = new AbortController();

  constructor(invocation: Invocation, { count, raw }: SubscribeOptions) {
    this.#invocation = invocation;
    this.#isRaw = raw === true;
    this.#missing = count ?? Infinity;
  }

  /** Listens to all channels until the end. One subscription that fails ends the others. */
  async listen(channels: readonly Uint8Array[]): Promise<void> {
    try {
      await Promise.all(channels.map((channel) => this.#listenTo(channel)));
    } finally {
      this.#ending.abort();
    }
  }

  /**
   * Prints the messages of a channel. A slow terminal drops the oldest ones instead of filling
   * memory.
   */
  async #listenTo(channel: Uint8Array): Promise<void> {
    const { client, output } = this.#invocation;
    const subscription = client.subscribe(channel, {
      signal: AbortSignal.any([this.#ending.signal, this.#invocation.signal]),
      overflow: "drop_oldest",
      onReconnect: () => void this.#say(channel, "reconnected"),
    });
    // A subscription that fails reports that through its messages below.
    subscription.ready.then(() => this.#say(channel, "subscribed")).catch(() => {});
    for await (const message of subscription) {
      if (this.#missing === 0) return;
      this.#missing--;
      await this.#print(channel, message);
      if (this.#missing === 0) this.#ending.abort();
    }
    output.note(output.faint(`no longer subscribed to ${shownBytes(channel)}`));
  }

  async #say(channel: Uint8Array, event: "subscribed" | "reconnected"): Promise<void> {
    const { output } = this.#invocation;
    await output.print({ event, ...jsonBytes("channel", channel) }, () => null);
    const words =
      event === "subscribed" ? "subscribed to" : "reconnected, messages may have been missed on";
    output.note(output.faint(`${words} ${shownBytes(channel)}`));
  }

  async #print(channel: Uint8Array, { payload, missed }: Message): Promise<void> {
    const { output } = this.#invocation;
    if (this.#isRaw) {
      await output.write(payload);
      await output.write("\n");
      return;
    }
    if (missed > 0) output.note(output.bad(`${missed} messages were dropped`));
    await output.print(
      {
        event: "message",
        ...jsonBytes("channel", channel),
        ...jsonBytes("payload", payload),
        missed,
      },
      () => `${output.strong(shownBytes(channel))}  ${shownPayload(payload)}`,
    );
  }
}
