/** Checks the tokens of requests against the revoked ones: `revocation-copies.ts` has what this isolate knows of them. */
import type { Environment } from "../base/environment.ts";
import { revocationListOf, type Access } from "../base/access.ts";
import { stopwatchMs } from "../base/clock.ts";
import { withTimeout } from "../base/in-time.ts";
import { directoryStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { NO_REVOCATIONS } from "../engine/revocations.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { READ_TIMEOUT_MS, RevocationCopies } from "./revocation-copies.ts";
import { assertNotExpired } from "./token.ts";

/** Of this isolate. */
const copies = new RevocationCopies();

/**
 * Whether the token of an access is revoked, as far as this isolate knows. False without a token.
 *
 * @param waitUntil keeps the request alive for a read behind it
 */
export async function isRevoked(
  env: Environment,
  access: Access,
  waitUntil: (work: Promise<void>) => void,
): Promise<boolean> {
  if (access.token === undefined) return false;
  return await copies.isRevoked(revocationListOf(access), access.token, {
    nowMs: stopwatchMs,
    wait: async (ms) => await scheduler.wait(ms),
    waitUntil,
    read: async (namespace, version) => {
      const call = directoryStub(env, namespace).revokedTokens(version);
      // A Directory of an earlier release has no list.
      return await withTimeout(
        orIfUnknown(call, () => NO_REVOCATIONS),
        READ_TIMEOUT_MS,
      );
    },
  });
}

/**
 * Checks that the token of an access was not revoked.
 *
 * @throws ThrottrError `token_revoked`
 */
export async function assertNotRevoked(
  env: Environment,
  ctx: Pick<ExecutionContext, "waitUntil">,
  access: Access,
): Promise<void> {
  if (!(await isRevoked(env, access, (work) => ctx.waitUntil(work)))) return;
  throw new ThrottrError("token_revoked", "the token was revoked: send another one");
}

/**
 * Checks that an access which was given before is still in force: a client decides how long a body or a response takes.
 *
 * @throws ThrottrError `token_expired`, `token_revoked`
 */
export async function assertInForce(
  env: Environment,
  ctx: Pick<ExecutionContext, "waitUntil">,
  access: Access,
): Promise<void> {
  assertNotExpired(access);
  await assertNotRevoked(env, ctx, access);
}

/** This isolate reads the list of a namespace again before it accepts another token of it. */
export const expireRevocations = (namespace: string): void => copies.expire(namespace);
