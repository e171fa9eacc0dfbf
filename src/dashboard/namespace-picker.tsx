/** Chooses a namespace, where the server lets the caller into any: a token for all of them, or a local server. */
import { useState } from "hono/jsx/dom";
import type { ThrottrError } from "../client/index.ts";
import { Button, Dialog, Failure, Loading, Opener, Search } from "./controls/index.ts";
import { counted } from "./format.ts";
import { useLoaded } from "./hooks.ts";
import { chooseNamespace, jsonOf, type Page, type Session } from "./session.ts";

type NamespacePage = Page<"namespaces", { readonly name: string }>;

const LOADED_AT_ONCE = 1000;
/** Names that are loaded, and that the filter looks through. */
const LOADED_MAX = 20_000;
const SHOWN_MAX = 50;
/** What the server takes for a name. */
const NAME = /^[\w.-]{1,64}$/;

/** The namespace that is shown, as a button that opens the list of the others. */
export function NamespaceButton({ session }: { readonly session: Session }) {
  const [isOpen, setOpen] = useState(false);
  const { namespace } = session.grant;
  return (
    <>
      <button
        type="button"
        class="link namespace"
        aria-haspopup="dialog"
        aria-label={`Namespace ${namespace}: choose another`}
        onClick={() => setOpen(true)}
      >
        {namespace}
      </button>
      {isOpen ? (
        <Dialog title="Choose a namespace" onClose={() => setOpen(false)}>
          <NamespaceList session={session} onChosen={() => setOpen(false)} />
        </Dialog>
      ) : null}
    </>
  );
}

/** All namespaces that the server lists, and a way to open one that it does not. */
export function NamespaceList({
  session,
  onChosen,
}: {
  readonly session: Session;
  readonly onChosen: () => void;
}) {
  const [filter, setFilter] = useState("");
  const listed = useLoaded(async (signal) => await readNames(session, signal), [session]);
  const [refusal, setRefusal] = useState<ThrottrError | null>(null);
  const { names, isWhole } = listed.value ?? NOTHING;
  const found = names.filter((name) => name.includes(filter));
  const isNew = NAME.test(filter) && !names.includes(filter);
  const choose = (name: string): void => {
    void chooseNamespace(session, name).then((refused) => {
      setRefusal(refused);
      if (refused === null) onChosen();
    });
  };
  return (
    <div class="stack">
      <Search
        id="namespace-filter"
        label="Name of a namespace, or part of it"
        placeholder="Name of a namespace"
        value={filter}
        onText={(text) => setFilter(text.trim())}
      />
      <Loading of={listed} rows={4}>
        {() => (
          <ul class="choices" aria-label="Namespaces">
            {found.slice(0, SHOWN_MAX).map((name) => (
              <li key={name}>
                <Opener
                  text={name}
                  isCurrent={name === session.grant.namespace}
                  onOpen={() => choose(name)}
                />
              </li>
            ))}
          </ul>
        )}
      </Loading>
      {isNew ? (
        <div>
          <Button label={`Open ${filter}`} onPress={() => choose(filter)} />
        </div>
      ) : null}
      <p class="hint">
        {found.length > SHOWN_MAX
          ? `${isWhole ? "" : "At least "}${counted(found.length, "namespace")}: type to find one.`
          : "A namespace is listed from its first record on. Type the name of one that is not."}
      </p>
      <Failure error={refusal} />
    </div>
  );
}

interface Names {
  readonly names: readonly string[];
  /** All of them are there. */
  readonly isWhole: boolean;
}

const NOTHING: Names = { names: [], isWhole: true };

async function readNames(session: Session, signal: AbortSignal): Promise<Names> {
  const names: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const path = `/v1/namespaces?limit=${LOADED_AT_ONCE}${query}`;
    const page: NamespacePage = await jsonOf<NamespacePage>(session, path, { signal });
    names.push(...page.namespaces.map(({ name }) => name));
    cursor = page.cursor;
  } while (cursor !== null && names.length < LOADED_MAX);
  return { names, isWhole: cursor === null };
}
