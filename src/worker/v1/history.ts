/** The route of the last hour: what the Directory keeps of it. */
import { reportFailure } from "../../base/failure.ts";
import { readSettings } from "../../base/settings.ts";
import { directoryStub } from "../../base/stubs.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import type { History, HistoryMinute } from "../../wire/history.ts";
import type { Caller } from "../caller.ts";
import { ok, route } from "./route.ts";
import { historyAnswer } from "./schemas/history.ts";

async function askHistory({ env, access }: Caller): Promise<History> {
  const { METRICS, HISTORY } = readSettings(env);
  if (METRICS === "off" || HISTORY === "off") return { minutes: [], unavailable: "off" };
  try {
    const call = directoryStub(env, access.namespace).history();
    const minutes = await orIfUnknown<HistoryMinute[] | null>(call, () => null);
    return { minutes: minutes ?? [], unavailable: minutes === null ? "outdated" : null };
  } catch (error) {
    throw reportFailure(error);
  }
}

export const historyRoutes = [
  route({
    method: "GET",
    path: "/v1/history",
    id: "history",
    tag: "admin",
    summary: "Show the last hour, minute by minute",
    description:
      "One call to the Directory, which objects tell once a minute what they have counted: figures are about a minute behind. What an object counted before it slept comes with its next request. The token's prefixes do not matter.",
    scopes: ["admin"],
    answers: { 200: { description: "The minutes.", schema: historyAnswer } },
    example: { url: "/v1/history" },
    answer: async ({ caller }) => ok(await askHistory(caller)),
  }),
];
