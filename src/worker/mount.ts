/**
 * Where the doors are in an application, and whom it lets in: what `routeThrottr` tells the routes about a request.
 *
 * It is noted by the execution context, as the rights of a service binding are: a header could be forged.
 */
import { accessOfGrant } from "../base/grant.ts";
import type { Access } from "../base/access.ts";
import { presentMs } from "../base/clock.ts";
import type { Settings } from "../base/settings.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** How an application says what the sender of a request may do. */
export interface Mount {
  /** A grant, or null for a sender without a session. */
  readonly grantOf: () => unknown;
  /** Whether the request was sent by a page that may use the session of its user. */
  readonly isOwnPage: boolean;
}

const mounts = new WeakMap<object, Mount>();

/** Lets the application give the rights of the requests of a context. */
export function mount(context: object, at: Mount): void {
  mounts.set(context, at);
}

/** Whether the application gives rights. */
export const hasSessions = (context: object): boolean => mounts.has(context);

/**
 * The settings for the requests of a context. Where an application gives the rights, no other way may be open: a caller
 * could name any namespace in place of a token.
 */
export const settingsFor = (context: object, settings: Settings): Settings =>
  mounts.has(context) ? { ...settings, ACCESS: "token" } : settings;

/**
 * The access that the session of a request gives; null where it has none. The application is not asked for a page of
 * another site: a browser sends the cookies of its user along with any page's requests.
 *
 * @throws ThrottrError `option_invalid`
 */
export async function sessionAccess(context: object): Promise<Access | null> {
  const at = mounts.get(context);
  if (at === undefined || !at.isOwnPage) return null;
  const grant = await at.grantOf();
  if (grant === null || grant === undefined) return null;
  const access = accessOfGrant(grant, true);
  return access.expiresAtMs !== null && access.expiresAtMs <= presentMs() ? null : access;
}

/**
 * The error for a request without a token whose session does not give the rights that the route needs.
 *
 * @param hasSession the route is about all namespaces, and a session is for one
 * @param takesTokens the server has a secret to check them with
 */
export function sessionMissing(hasSession: boolean, takesTokens: boolean): ThrottrError {
  return hasSession
    ? new ThrottrError(
        "deployment_only",
        "the session is for one namespace, and the route about all of them: send a token for all namespaces",
      )
    : new ThrottrError(
        "token_missing",
        takesTokens
          ? "the application gives this request no rights: sign in there, or send a token as Authorization: Bearer"
          : "the application gives this request no rights: sign in there",
      );
}
