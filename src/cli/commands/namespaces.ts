/** `namespaces`: the namespaces of a deployment, for the holder of a token for all of them. */
import type { Command } from "commander";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import { printPages, type Listing } from "../listing.ts";
import { addConnectionOptions, limitOption } from "../options.ts";
import type { AskPage } from "../pages.ts";
import { shownTime } from "../records.ts";
import { askServer } from "../server-request.ts";
import { NAMESPACE } from "../../base/names.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

interface NamespacesOptions {
  readonly limit?: number;
}

/** A row of `GET /v1/namespaces`. */
export interface ListedNamespace {
  readonly name: string;
  readonly registeredAtMs: number;
}

interface Answer {
  readonly namespaces: readonly ListedNamespace[];
  readonly cursor: string | null;
}

const NAMESPACES: Listing<ListedNamespace> = {
  json: ({ name, registeredAtMs }) => ({ name, registeredAtMs }),
  columns: [
    ["NAMESPACE", ({ name }) => name],
    ["LISTED", ({ registeredAtMs }) => shownTime(registeredAtMs)],
  ],
};

export const addNamespaces: AddCommand = (program: Command) => {
  const command = program
    .command("namespaces")
    .description("list the namespaces of the deployment; needs a token for all (token --ns '*')")
    .addOption(limitOption())
    .action(
      action<NamespacesOptions, []>(async (invocation, { limit }) => {
        await printPages(invocation.output, NAMESPACES, limit, namespacePages(invocation));
      }),
    );
  addConnectionOptions(command);
};

/**
 * Asks for pages of the namespaces, in the order of their names. A name becomes that of a file, so it is not taken on trust.
 *
 * @throws ThrottrError `response_invalid` for a name that no namespace can have
 */
export function namespacePages({ settings, signal }: Invocation): AskPage<ListedNamespace> {
  return async (limit, { cursor }) => {
    const from = cursor === undefined ? "" : `&cursor=${Buffer.from(cursor).toString("base64url")}`;
    const path = `/v1/namespaces?limit=${limit}${from}`;
    const request = { path, token: settings.token, field: "namespaces" };
    const answer = await askServer(settings, request, signal);
    const { namespaces, cursor: next } = answer as unknown as Answer;
    for (const { name } of namespaces) assertName(name);
    return { rows: namespaces, cursor: next === null ? null : Buffer.from(next, "base64url") };
  };
}

function assertName(name: unknown): void {
  if (typeof name === "string" && NAMESPACE.test(name)) return;
  throw new ThrottrError(
    "response_invalid",
    "the server lists a namespace whose name is not 1 to 64 letters, digits, dots, dashes or underscores: check --url",
  );
}
