/**
 * Access of callers over a service binding, from the binding's props.
 *
 * Props are written in the caller's configuration by somebody with access to the account; a caller at run time cannot
 * change them. So they need no signature, unlike tokens.
 */
import * as v from "valibot";
import type { Access } from "../base/access.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { accessOf, grantFields, namespaceName, scopeNames } from "./token.ts";

const propsSchema = v.strictObject({
  /** Default: `default`. */
  namespace: v.optional(namespaceName("namespace"), "default"),
  /** Default: all scopes. */
  scopes: v.optional(grantFields.scopes, scopeNames),
  keyPrefixes: grantFields.keyPrefixes,
  channelPrefixes: grantFields.channelPrefixes,
});

/** `props` of a binding to the entrypoint `Throttr`. */
export type BindingProps = v.InferInput<typeof propsSchema>;

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
  if (typeof given !== "object" || Array.isArray(given)) {
    throw new ThrottrError("props_invalid", "props of the service binding: expected an object");
  }
  let access = known.get(given);
  if (access === undefined) {
    const result = v.safeParse(propsSchema, given);
    if (!result.success) {
      const messages = result.issues.map(({ message }) => message).join("; ");
      throw new ThrottrError("props_invalid", `props of the service binding: ${messages}`);
    }
    access = accessOf(result.output.namespace, result.output, null);
    known.set(given, access);
  }
  return access;
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
