/** Messages of clients whose requests are counted. */
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import type { Call, History } from "../../checks/history.ts";
import type { World } from "../../world.ts";
import { giveUp } from "../give-up.ts";
import type { Port } from "../port.ts";

interface Asked<Operated, Outcome> {
  readonly operation: Operated;
  readonly frame: Operation<Outcome>;
}

/** Sends requests as one message. @returns the calls, as they have ended */
export async function exchangeNoted<Operated, Outcome>(
  world: World,
  history: History<Operated, Outcome>,
  port: Port,
  asked: readonly Asked<Operated, Outcome>[],
): Promise<readonly Call<Operated, Outcome>[]> {
  const { door, connection } = port;
  world.operations += asked.length;
  const calls = asked.map(({ operation }) =>
    history.begin({ client: 0, door, connection, operation }),
  );
  const answers = await port.exchange(asked.map(({ frame }) => frame));
  for (const [i, call] of calls.entries()) {
    const answer = answers[i]!;
    if (answer.kind === "reply") history.end(call, asked[i]!.frame.read(answer.reply));
    else if (answer.kind === "refused") history.end(call, "refused");
    else giveUp(world, history, call);
  }
  return calls;
}
