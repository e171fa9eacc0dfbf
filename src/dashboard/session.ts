/**
 * The session of the tab: its token, if the deployment needs one, and what it may do.
 *
 * The token travels as a header, and to a WebSocket as a subprotocol; never in a URL, which would end up in logs.
 *
 * A local server lets anyone in, to any namespace: its name then stands in place of a token.
 */
import { http, ThrottrClient, ThrottrError } from "../client/index.ts";
import { DOOR_PATH } from "../client/transport/door.ts";
import { credentialsFor, OPEN_NAMESPACE } from "../wire/credentials.ts";
import type { Grant } from "../wire/grant.ts";
import type { ScopeName } from "../wire/throttr/requests.ts";
import { urlOf } from "./base.ts";
import { readNames, type Names } from "./namespaces.ts";
import { namespaceInAddress, putNamespaceInAddress } from "./place.ts";
import { learnClock } from "./server-clock.ts";
import { jsonOf } from "./server.ts";
import { forgetToken, keepToken, readToken } from "./session-token.ts";
import { Store } from "./store.ts";

/** The namespace of a token for all of them that names none. */
const ALL = "*";
/** Errors that end a session: the token is missing, wrong or expired. */
const TOKEN_CODES = [
  "token_missing",
  "token_invalid",
  "token_expired",
  "token_revoked",
  "token_not_yet_valid",
];

export interface Session {
  /** Another one for each session that this page opens. A screen keeps its state for one session only. */
  readonly number: number;
  /** Null where the server lets this page in without one: it is open, or the application around it has a session. */
  readonly token: string | null;
  /** No real token was shown: none at all, or the name of a namespace in its place. */
  readonly isWithoutToken: boolean;
  /** What the server allows. */
  readonly grant: Grant;
  /** It could be in several namespaces, and in none of them yet. */
  readonly mustChoose: boolean;
  /** Calls over HTTP; subscriptions over a WebSocket. */
  readonly throttr: ThrottrClient;
}

export type SessionState =
  | { readonly status: "checking" }
  | { readonly status: "open"; readonly session: Session }
  /** A token is needed; the error says why the one before was refused. */
  | { readonly status: "asking"; readonly error: ThrottrError | null }
  /** The server cannot be reached, or its access is not configured. */
  | { readonly status: "failed"; readonly error: ThrottrError };

export const sessionStore = new Store<SessionState>({ status: "checking" });

/** An attempt to open a session. */
interface Attempt {
  /** The namespace that the address named when it began; null: none. */
  readonly addressed: string | null;
}

/** The latest attempt: what comes of an earlier one has no effect, as the user has chosen something else since. */
let latest: Attempt = { addressed: null };

const beginAttempt = (): Attempt => (latest = { addressed: namespaceInAddress() });

/** What came of an attempt: null where the session is open, else the error, or that a later attempt has taken its place. */
export type Outcome = ThrottrError | null | "superseded";

/** Opens the dashboard with the token of this tab, or without one; in the namespace that the address names. */
export async function openSession(): Promise<void> {
  const [token, namespace] = [readToken(), namespaceInAddress()];
  if (namespace === null) return void (await signIn(token));
  const attempt = beginAttempt();
  try {
    await enter(attempt, credentialsFor(token, namespace));
  } catch (thrown) {
    if (attempt !== latest) return;
    const error = ThrottrError.from(thrown, "failed");
    // Most often the token is for one namespace: then that one is shown, or the reason why not.
    if (TOKEN_CODES.includes(error.code)) await signIn(token);
    else leaveFor({ status: "failed", error });
  }
}

/** Back and forward may lead to another namespace. */
export function listenToNamespace(): void {
  addEventListener("popstate", () => {
    const { value } = sessionStore;
    const namespace = namespaceInAddress();
    if (namespace === null) return;
    if (value.status === "checking") return void openSession();
    if (value.status !== "open") return;
    if (namespace !== value.session.grant.namespace) void openSession();
    // The address has left the namespace of the latest attempt. A link to a screen keeps the namespace, and what was chosen.
    else if (namespace !== latest.addressed) beginAttempt();
  });
}

/**
 * Opens another namespace, with a token for all of them or on a server that lets anyone in to any.
 *
 * @returns an error if the server refused it; the session that was open stays open
 */
export async function chooseNamespace(
  { token, grant, mustChoose }: Session,
  name: string,
): Promise<Outcome> {
  return await signIn(credentialsFor(token, name), () => {
    // Back leads to the namespace that was open, which the address need not have named.
    if (!mustChoose) putNamespaceInAddress(grant.namespace);
    putNamespaceInAddress(name, true);
  });
}

/** Goes on without the token, where the server lets anyone in; else asks for one. */
export async function signOut(): Promise<void> {
  forgetToken();
  putNamespaceInAddress(null);
  sessionStore.set({ status: "checking" });
  await signIn(null);
}

/**
 * Opens the dashboard with a token, or without one, and keeps it for this tab if the server takes it.
 *
 * @param nameInAddress changes the address before the session opens
 * @returns an error if the server refused it; a session that was open stays open
 */
export async function signIn(
  token: string | null,
  nameInAddress = renameInAddress,
): Promise<Outcome> {
  const attempt = beginAttempt();
  try {
    return await enter(attempt, token, nameInAddress);
  } catch (thrown) {
    if (attempt !== latest) return "superseded";
    const { value } = sessionStore;
    const error = ThrottrError.from(thrown, "failed");
    if (value.status === "open") return error;
    if (TOKEN_CODES.includes(error.code)) {
      forgetToken();
      // That a first visitor has no token is no error.
      ask(token === null ? null : error);
    } else {
      sessionStore.set({ status: "failed", error });
    }
    return error;
  }
}

/** @throws ThrottrError as the server refuses the token */
async function enter(
  attempt: Attempt,
  token: string | null,
  nameInAddress = renameInAddress,
): Promise<null | "superseded"> {
  const grant = await jsonOf<Grant>({ token }, "/v1/access");
  // Local servers send no header `date`, and not every screen gets another time.
  learnClock(grant.atMs);
  const others = token === null ? await namespacesInstead(grant) : [];
  if (attempt !== latest) return "superseded";
  if (others.length === 1) {
    putNamespaceInAddress(others[0]!);
    return await enter(attempt, credentialsFor(token, others[0]!));
  }
  const { value } = sessionStore;
  keepToken(token);
  nameInAddress(grant);
  const mustChoose = grant.namespace === ALL || others.length > 1;
  sessionStore.set({ status: "open", session: sessionOf(token, grant, mustChoose) });
  if (value.status === "open") await value.session.throttr.close();
  return null;
}

/** An address that names a namespace names the one that the server gives. */
function renameInAddress({ namespace }: Grant): void {
  if (namespaceInAddress() !== null) putNamespaceInAddress(namespace);
}

/**
 * The namespaces that have records, where the one that an open server gives has none: an application has most often
 * chosen another name. Empty to go on with the given one.
 */
async function namespacesInstead({
  namespace,
  isForAllNamespaces,
}: Grant): Promise<Names["names"]> {
  if (!isForAllNamespaces || namespaceInAddress() !== null) return [];
  try {
    const { names } = await readNames({ token: null });
    return names.includes(namespace) ? [] : names;
  } catch {
    // The list only spares a choice by hand: the server may be of a release without it, or unable to read it now.
    return [];
  }
}

function sessionOf(token: string | null, grant: Grant, mustChoose: boolean): Session {
  const isWithoutToken = token === null || token.startsWith(OPEN_NAMESPACE);
  const throttr = new ThrottrClient(http(urlOf(DOOR_PATH), token === null ? {} : { token }));
  return { number: ++sessionsOpened, token, isWithoutToken, grant, mustChoose, throttr };
}

let sessionsOpened = 0;

const ask = (error: ThrottrError | null): void => leaveFor({ status: "asking", error });

/** Ends the session, if one is open. */
function leaveFor(state: SessionState): void {
  const { value } = sessionStore;
  if (value.status === "open") void value.session.throttr.close();
  sessionStore.set(state);
}

/** What went wrong, as it can be shown. An error that the token is to blame for ends the session. */
export function failureOf(error: unknown): ThrottrError {
  const known = ThrottrError.from(error, "failed");
  if (TOKEN_CODES.includes(known.code)) {
    forgetToken();
    ask(known);
  }
  return known;
}

/** True when the token is known to lack a scope; then there is no need to ask the server. */
export const lacksScope = ({ grant }: Session, scope: ScopeName): boolean =>
  !grant.scopes.includes(scope);
