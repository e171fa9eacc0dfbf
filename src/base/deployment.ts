/**
 * How this isolate runs the server: as a Worker of its own, or inside another Worker.
 *
 * The Worker says it once, at module level. An object that its alarm wakes never ran a fetch handler, so a handler
 * would say it too late; the modules of a Worker are loaded before any of its objects.
 */

/** The classes that the platform finds by the names that the Worker exports them under. */
export type ClassName = "Shard" | "Hub" | "Channel" | "Directory" | "Throttr";

export interface Deployment {
  /** What the names of variables and bindings begin with. */
  readonly prefix: string;
  /** Settings given in code, by name without the prefix. A variable of the environment wins over them. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The names of classes that the Worker exports under another name than their own. */
  readonly classes: Readonly<Partial<Record<ClassName, string>>>;
}

/** A Worker of its own: all variables and bindings are the server's. */
export const STAND_ALONE: Deployment = { prefix: "", settings: {}, classes: {} };

/** Inside another Worker, whose variables and bindings have names of its own. */
export const EMBEDDED: Deployment = { prefix: "THROTTR_", settings: {}, classes: {} };

/**
 * Embedded unless the Worker says otherwise: a project that bundles only the parts of the package that it uses runs no
 * statement that would say so.
 */
let current = EMBEDDED;

/** Says how the isolate runs the server. A later call takes the place of an earlier one. */
export function deploy(deployment: Deployment): void {
  current = deployment;
}

/** How this isolate runs the server. */
export const deployment = (): Deployment => current;

/** The name of a variable or a binding as the operator writes it. */
export const variableName = (name: string): string => current.prefix + name;

/** A variable or a binding of an environment, by its name without the prefix; undefined where it is not set. */
export function variableOf(env: object, name: string): unknown {
  return (env as Readonly<Record<string, unknown>>)[variableName(name)];
}
