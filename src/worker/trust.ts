/** Access of callers over a service binding: what the binding's props say. */
import * as v from "valibot";
import type { Access } from "../base/access.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { accessOf, grantFields, namespaceName, scopeNames } from "./token.ts";

const propsSchema = v.strictObject({
  /** Namespace: `default` unless given. */
  namespace: v.optional(namespaceName("namespace"), "default"),
  /** All of them unless given. */
  scopes: v.optional(grantFields.scopes, scopeNames),
  keyPrefixes: grantFields.keyPrefixes,
  channelPrefixes: grantFields.channelPrefixes,
});

/** `props` of a binding to the entrypoint `Throttr`. */
export type BindingProps = v.InferInput<typeof propsSchema>;

const known = new WeakMap<object, Access>();
const EVERYTHING: BindingProps = {};

/**
 * What the props of a binding give.
 *
 * @throws ThrottrError `props_invalid`
 */
export function accessOfProps(props: unknown): Access {
  const given = props ?? EVERYTHING;
  if (typeof given !== "object" || Array.isArray(given)) {
    throw new ThrottrError("props_invalid", "props of the service binding: an object is expected");
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

/** Accesses of requests that came over a binding, by their context. */
const trusted = new WeakMap<object, Access>();

/** The requests of a context have this access, whatever token they bring. */
export function trust(context: object, access: Access): void {
  trusted.set(context, access);
}

/** Access of a request that came over a binding; undefined for one from outside. */
export function trustedAccess(context: object): Access | undefined {
  return trusted.get(context);
}
