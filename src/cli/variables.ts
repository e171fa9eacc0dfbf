/** Variables of the server, as `--var NAME=value` gives them. */
import { isVariable, parseSettings } from "../base/settings.ts";
import { UsageError } from "./failure.ts";

interface Assignment {
  readonly name: string;
  readonly value: string;
}

/** Reads one `--var`. @throws UsageError `variable_invalid` */
export function assignmentOf(text: string): Assignment {
  const [, name, value] = /^([A-Z][A-Z0-9_]*)=([^]*)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return { name, value };
  throw new UsageError("variable_invalid", `--var: expected NAME=value, got ${text}`);
}

/** Refuses a name that is not a variable of the server, which would never notice it. @throws UsageError `variable_unknown` */
export function assertKnown(name: string): void {
  if (isVariable(name)) return;
  const known = Object.keys(parseSettings({}));
  throw new UsageError(
    "variable_unknown",
    `--var: unknown variable ${name}; the variables are ${known.join(", ")}`,
  );
}
