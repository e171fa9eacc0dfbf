/** The keys that limiters refuse most and decide about most, what to do about them, and the record of each. */
import { useState, type Child } from "hono/jsx/dom";
import type { HotKey } from "../../wire/limit-figures.ts";
import {
  Button,
  Card,
  Dialog,
  Empty,
  Loading,
  Opener,
  Table,
  type Column,
} from "../controls/index.ts";
import { formatCount } from "../format.ts";
import { useLoaded } from "../hooks.ts";
import { storedKeyOf } from "../limit-record.ts";
import { bytesOfName } from "../names.ts";
import { useOpened } from "../place.ts";
import { type Session } from "../session.ts";
import { nameText } from "../value-text.ts";
import { RecordDialog } from "./record.tsx";

/** Keys with the names of their limiters. */
export type Keys = readonly (HotKey & { readonly name: string })[];

/** Keys of a table before all of them are asked for. */
const SHOWN = 8;

const encoder = new TextEncoder();

export function KeyCards({
  session,
  mostRefused,
  hottest,
  onLimit,
}: {
  readonly session: Session;
  readonly mostRefused: Keys;
  readonly hottest: Keys;
  /** Opens a limiter; null: all keys are of one. */
  readonly onLimit: ((name: string) => void) | null;
}) {
  const [opened, open] = useOpened("record");
  const common = { onOpen: (key: Uint8Array) => open(key), onLimit };
  return (
    <>
      <div class="columns">
        <KeyCard {...common} title="Most refused keys" head="Refusals" keys={mostRefused}>
          Set <code>cache: true</code> in the limiter: refusals are then answered from memory, until
          the limit resets. If these callers should pass, raise the burst, the rate or the limit of
          the strategy.
        </KeyCard>
        <KeyCard {...common} title="Hottest keys" head="Decisions" keys={hottest}>
          One shard decides all requests of a key. If it refuses most of them, set{" "}
          <code>cache: true</code>. If it grants most of them, set <code>local: true</code>: the
          application then decides most of them itself, from units that it draws ahead. If they come
          in short bursts, raise the burst.
        </KeyCard>
      </div>
      {opened === null ? null : (
        <StateDialog
          key={nameText(opened)}
          session={session}
          recordKey={opened}
          onClose={() => open(null)}
        />
      )}
    </>
  );
}

/** The key that the state of a limit is stored under; that of a composite has two characters more. */
const recordKeyOf = (key: Keys[number]): Uint8Array => {
  const own = bytesOfName(key, "key");
  const name = encoder.encode(`${key.name}:`);
  const bytes = new Uint8Array(name.length + own.length);
  bytes.set(name);
  bytes.set(own, name.length);
  return bytes;
};

function KeyCard({
  title,
  head,
  keys,
  onOpen,
  onLimit,
  children,
}: {
  readonly title: string;
  readonly head: string;
  readonly keys: Keys;
  readonly onOpen: (key: Uint8Array) => void;
  readonly onLimit: ((name: string) => void) | null;
  /** What to do about such keys. */
  readonly children: Child;
}) {
  const [isWhole, setWhole] = useState(false);
  return (
    <Card title={title} aside="of the last 5 to 10 minutes">
      {keys.length === 0 ? (
        <Empty title="None lately">Keys are counted while requests come.</Empty>
      ) : (
        <>
          <Table
            label={title}
            rows={isWhole ? keys : keys.slice(0, SHOWN)}
            keyOf={(key) => nameText(recordKeyOf(key))}
            isCompact
            columns={columnsOf(head, onOpen, onLimit)}
          />
          {isWhole || keys.length <= SHOWN ? null : (
            <div class="pager hint">
              <Button label={`Show all ${keys.length}`} onPress={() => setWhole(true)} />
            </div>
          )}
          <p class="hint">{children}</p>
        </>
      )}
    </Card>
  );
}

const columnsOf = (
  head: string,
  onOpen: (key: Uint8Array) => void,
  onLimit: ((name: string) => void) | null,
): readonly Column<Keys[number]>[] => [
  {
    head: "Key",
    isTitle: true,
    cell: (key) => (
      <Opener text={nameText(bytesOfName(key, "key"))} onOpen={() => onOpen(recordKeyOf(key))} />
    ),
  },
  ...(onLimit === null
    ? []
    : [
        {
          head: "Limiter",
          cell: ({ name }: Keys[number]) => <Opener text={name} onOpen={() => onLimit(name)} />,
        },
      ]),
  { head, isNumber: true, cell: (key) => <Count of={key} /> },
];

/** A count with its uncertainty: a key that came lately may have taken the place of others. */
function Count({ of: { count, countErrorMax } }: { readonly of: HotKey }) {
  if (countErrorMax === 0) return <>{formatCount(count)}</>;
  const least = formatCount(count - countErrorMax);
  return (
    <span title={`Between ${least} and ${formatCount(count)}`}>
      {least} – {formatCount(count)}
    </span>
  );
}

/** The record of a key, of either form. */
function StateDialog({
  session,
  recordKey,
  onClose,
}: {
  readonly session: Session;
  readonly recordKey: Uint8Array;
  readonly onClose: () => void;
}) {
  const found = useLoaded(
    async (signal) => ({ key: await storedKeyOf(session.throttr, recordKey, signal) }),
    [session, recordKey],
  );
  if (found.value === null) {
    if (found.error === null) return null;
    return (
      <Dialog title={nameText(recordKey)} onClose={onClose} isDrawer>
        <Loading of={found}>{() => null}</Loading>
      </Dialog>
    );
  }
  return (
    <RecordDialog
      session={session}
      recordKey={found.value.key}
      kind="buffer"
      onClose={onClose}
      onChange={() => {}}
    />
  );
}
