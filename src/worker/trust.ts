/**
 * Access of callers over a service binding, from the binding's props.
 *
 * Props are part of the caller's configuration, which only members of the account can write; a caller at run time cannot
 * change them. So they need no signature, unlike tokens.
 */
import type { Access } from "../base/access.ts";
import { accessOfGrant, GrantError, type Grant } from "../base/grant.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** `props` of a binding to the entrypoint `Throttr`. */
export type BindingProps = Grant;

/** Accesses by props object. Weak, as the runtime drops the props with the binding. */
const known = new WeakMap<object, Access>();
/**
 * A binding without props may do everything: only the account's owner can bind. One object, so that it is remembered
 * too.
 */
const EVERYTHING: BindingProps = {};

/**
 * Reads the props of a binding. The platform passes the same object for every call, so the result is remembered.
 *
 * @throws ThrottrError `props_invalid`
 */
export function accessOfProps(props: unknown): Access {
  const given = props ?? EVERYTHING;
  let access = known.get(given);
  if (access === undefined) {
    access = checked(given);
    known.set(given, access);
  }
  return access;
}

/** @throws ThrottrError `props_invalid` */
function checked(props: object): Access {
  try {
    return accessOfGrant(props);
  } catch (error) {
    if (!(error instanceof GrantError)) throw error;
    throw new ThrottrError("props_invalid", `props of the service binding: ${error.message}`);
  }
}

/** Access of requests that came over a binding, by execution context: a header could be forged, a context cannot. */
const trusted = new WeakMap<object, Access>();

/** Gives the requests of a context this access, whatever token they have. */
export function trust(context: object, access: Access): void {
  trusted.set(context, access);
}

/** The access of a request that came over a binding; undefined for a request from outside. */
export function trustedAccess(context: object): Access | undefined {
  return trusted.get(context);
}
