/** Chooses a namespace, where the server lets the caller into any: a token for all of them, or a local server. */
import { useState } from "hono/jsx/dom";
import type { ThrottrError } from "../client/index.ts";
import { Button, Dialog, Failure, Loading, Opener, Search } from "./controls/index.ts";
import { counted, formatCount } from "./format.ts";
import { useLoaded } from "./hooks.ts";
import { readNames, type Names } from "./namespaces.ts";
import { chooseNamespace, type Session } from "./session.ts";

const SHOWN_MAX = 50;
/** Names in a sentence. */
const OTHERS_MAX = 5;
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
  const [refusal, choose] = useChoice(session, onChosen);
  const { names, isWhole } = listed.value ?? NOTHING;
  const found = names.filter((name) => name.includes(filter));
  const isNew = NAME.test(filter) && !names.includes(filter);
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

/** For a screen without anything to show: namespaces with records, which may be the ones that were looked for. */
export function OtherNamespaces({ session }: { readonly session: Session }) {
  const listed = useLoaded(async (signal) => await readNames(session, signal), [session]);
  const [refusal, choose] = useChoice(session, () => {});
  const names = (listed.value ?? NOTHING).names.filter((name) => name !== session.grant.namespace);
  if (names.length === 0) return null;
  return (
    <>
      <p>
        Other namespaces with records:{" "}
        {names.slice(0, OTHERS_MAX).map((name, i) => (
          <span key={name}>
            {i === 0 ? "" : ", "}
            <Opener text={name} onOpen={() => choose(name)} />
          </span>
        ))}
        {names.length > OTHERS_MAX ? ` and ${formatCount(names.length - OTHERS_MAX)} more` : ""}.
      </p>
      <Failure error={refusal} />
    </>
  );
}

/** Opens the namespace that is chosen, or says why the server refused the last one. */
function useChoice(
  session: Session,
  onChosen: () => void,
): [refusal: ThrottrError | null, choose: (name: string) => void] {
  const [refusal, setRefusal] = useState<ThrottrError | null>(null);
  const choose = (name: string): void => {
    void chooseNamespace(session, name).then((outcome) => {
      if (outcome === "superseded") return;
      setRefusal(outcome);
      if (outcome === null) onChosen();
    });
  };
  return [refusal, choose];
}

const NOTHING: Names = { names: [], isWhole: true };
