/** Routes about revoked tokens: of a namespace, or those for all namespaces. */
import * as v from "valibot";
import { EXPIRED_AGO_MS_MAX, TOKEN_ID } from "../../base/access.ts";
import { presentMs } from "../../base/clock.ts";
import { reportFailure } from "../../base/failure.ts";
import { directoryStub } from "../../base/stubs.ts";
import { ISSUED_AHEAD_MS, REVOKED_TOKENS_MAX } from "../../engine/revocations.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Caller } from "../caller.ts";
import { expireRevocations } from "../revocations.ts";
import { nothing, ok, refuseFields, route } from "./route.ts";
import { counted, integer, moment } from "./schemas/parts.ts";

/** For an ID of a token. */
const ID_MESSAGE = "expected 1 to 64 ASCII characters without spaces";

/** The last moment that a date can hold. */
const TIME_MS_MAX = 8_640_000_000_000_000;

const time = (description: string) => integer(0, TIME_MS_MAX, description);

const revocationBody = v.pipe(
  v.strictObject({
    id: v.exactOptional(
      v.pipe(
        v.string(ID_MESSAGE),
        v.regex(TOKEN_ID, ID_MESSAGE),
        v.description("`jti` of the token."),
      ),
    ),
    expiresAtMs: v.exactOptional(
      time(
        "With `id`: when the token expires, in ms since the epoch. Not more than a day ago. The ID leaves the list then; without it, the ID stays until all tokens before a later moment are revoked.",
      ),
    ),
    issuedBeforeMs: v.exactOptional(
      time(
        "All tokens that were issued before (`iat`), in ms since the epoch, and all without `iat`. Not in the future.",
      ),
    ),
  }),
  v.rawCheck(({ dataset: { typed, value }, addIssue }) => {
    if (!typed || "id" in value !== "issuedBeforeMs" in value) return;
    addIssue({ message: "expected either id or issuedBeforeMs" });
  }),
);

const revocationsAnswer = v.strictObject({
  issuedBeforeMs: moment("Tokens that were issued before are revoked; null for none."),
  tokens: v.pipe(
    v.array(
      v.strictObject({
        id: v.string(),
        revokedAtMs: counted("In ms since the epoch."),
        expiresAtMs: moment("When the ID leaves the list; null if that is not known."),
      }),
    ),
    v.description("In the order in which they were revoked."),
  ),
});

/** Whose end is whose business: one with prefixes sees a part of the namespace, and must not end tokens of all of it. */
function assertWhole({ access: { keyPrefixes, channelPrefixes } }: Caller): void {
  if (keyPrefixes.length + channelPrefixes.length === 0) return;
  throw new ThrottrError(
    "prefix_missing",
    "revoking tokens needs a token without keyPrefixes and channelPrefixes",
  );
}

/** Lets the Directory do something; its failure may leave the outcome unknown. */
async function asked<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw reportFailure(error);
  }
}

export const tokenRoutes = [
  route({
    method: "POST",
    path: "/v1/tokens/revocations",
    id: "revokeTokens",
    tag: "admin",
    summary: "Revoke a token by its ID, or all that were issued before a moment",
    description: `Every door refuses them within 60 s, and their connections are closed at once (1008, \`token_revoked\`). This is about tokens of the caller's namespace, or, with a token for all namespaces that names none, about those. It cannot be undone. A list has at most ${REVOKED_TOKENS_MAX} IDs. The token must have no prefixes.`,
    reach: "either",
    scopes: ["admin"],
    body: revocationBody,
    answers: { 204: { description: "They are revoked." } },
    errors: ["revocations_max"],
    example: {
      url: "/v1/tokens/revocations",
      body: { id: "3q2-7wAAQkyx", expiresAtMs: 4102444800000 },
    },
    answer: async ({ caller, body: { id, expiresAtMs = null, issuedBeforeMs = 0 } }) => {
      assertWhole(caller);
      const { namespace } = caller.access;
      const directory = directoryStub(caller.env, namespace);
      if (expiresAtMs !== null && expiresAtMs < presentMs() - EXPIRED_AGO_MS_MAX) {
        const message = "expected a moment that is not more than a day ago, in milliseconds";
        refuseFields("body_invalid", [{ field: "expiresAtMs", message }]);
      }
      if (id === undefined) {
        if (issuedBeforeMs > presentMs() + ISSUED_AHEAD_MS) {
          const message = "expected a moment that is not in the future";
          refuseFields("body_invalid", [{ field: "issuedBeforeMs", message }]);
        }
        await asked(directory.revokeTokensBefore(issuedBeforeMs));
      } else if (!(await asked(directory.revokeToken(id, expiresAtMs)))) {
        throw new ThrottrError(
          "revocations_max",
          `${REVOKED_TOKENS_MAX} IDs are revoked: revoke all tokens that were issued before now (issuedBeforeMs), and hand out new ones`,
        );
      }
      expireRevocations(namespace);
      return nothing;
    },
  }),
  route({
    method: "GET",
    path: "/v1/tokens/revocations",
    id: "listRevocations",
    tag: "admin",
    summary: "List revoked tokens",
    reach: "either",
    scopes: ["admin"],
    answers: { 200: { description: "What is in force.", schema: revocationsAnswer } },
    example: { url: "/v1/tokens/revocations" },
    answer: async ({ caller: { env, access } }) => {
      const list = await asked(directoryStub(env, access.namespace).revocations());
      return ok({ issuedBeforeMs: list.issuedBeforeMs || null, tokens: list.tokens });
    },
  }),
];
