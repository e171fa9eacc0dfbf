/** The namespaces that the server lists, for callers that it lets into any: a namespace is listed from its first record on. */
import { jsonOf, type Credentials, type Page } from "./server.ts";

type NamespacePage = Page<"namespaces", { readonly name: string }>;

const LOADED_AT_ONCE = 1000;
/** Names that are loaded, and that a filter looks through. */
const LOADED_MAX = 20_000;

export interface Names {
  readonly names: readonly string[];
  /** All of them are there. */
  readonly isWhole: boolean;
}

/** @throws ThrottrError as `jsonOf` */
export async function readNames(session: Credentials, signal?: AbortSignal): Promise<Names> {
  const names: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const path = `/v1/namespaces?limit=${LOADED_AT_ONCE}${query}`;
    const page: NamespacePage = await jsonOf<NamespacePage>(
      session,
      path,
      signal === undefined ? {} : { signal },
    );
    names.push(...page.namespaces.map(({ name }) => name));
    cursor = page.cursor;
  } while (cursor !== null && names.length < LOADED_MAX);
  return { names, isWhole: cursor === null };
}
