/** Records: browsed by prefix, page by page. */
import { useRef, useState } from "hono/jsx/dom";
import { useEffect } from "../effect.ts";
import type { ListedRecord, RecordPage } from "../../client/index.ts";
import {
  Button,
  Card,
  Countdown,
  Empty,
  Lack,
  Loading,
  Pager,
  ScreenHead,
  Table,
} from "../controls/index.ts";
import { formatBytes, formatCount } from "../format.ts";
import { useLoaded } from "../hooks.ts";
import { lacksScope, type Session } from "../session.ts";
import { nameText } from "../value-text.ts";
import { NewRecord } from "./new-record.tsx";
import { RecordDialog } from "./record.tsx";

const PAGE_RECORDS = 50;
/** How long somebody may pause while typing a prefix. */
const TYPING_MS = 300;

/** A page: the cursors of all pages before it, and its own, which the first one has not. */
type Cursors = readonly Uint8Array[];

export function RecordsScreen({ session }: { readonly session: Session }) {
  const [prefix, setPrefix] = useState("");
  const [cursors, setCursors] = useState<Cursors>([]);
  const [opened, setOpened] = useState<ListedRecord | null>(null);
  const [isNew, setNew] = useState(false);
  const typing = useRef<ReturnType<typeof setTimeout> | null>(null);
  const isReadable = !lacksScope(session, "read");
  const page = useLoaded(
    isReadable ? (signal) => pageOf(session, prefix, cursors.at(-1) ?? null, signal) : null,
    [session, prefix, cursors],
  );
  useEffect(() => () => clearTimeout(typing.current ?? undefined), []);
  const type = (text: string): void => {
    clearTimeout(typing.current ?? undefined);
    typing.current = setTimeout(() => {
      setPrefix(text);
      setCursors([]);
    }, TYPING_MS);
  };
  const next = page.value?.cursor ?? null;
  const head = (
    <ScreenHead title="Records" lead="Counters and buffers">
      {lacksScope(session, "write") ? null : (
        <Button label="New record" icon="add" kind="primary" onPress={() => setNew(true)} />
      )}
    </ScreenHead>
  );
  const newRecord = isNew ? (
    <NewRecord
      session={session}
      prefix={prefix}
      onClose={() => setNew(false)}
      onMade={page.reload}
    />
  ) : null;
  if (!isReadable) {
    return (
      <>
        {head}
        <Lack scope="read" />
        {newRecord}
      </>
    );
  }
  return (
    <>
      {head}
      <Card
        title={prefix === "" ? "All records" : `Keys that begin with “${prefix}”`}
        aside={
          <Button
            label="Load again"
            icon="reload"
            isBare
            isBusy={page.isLoading}
            onPress={page.reload}
          />
        }
      >
        <label class="field search">
          <span class="unseen">Prefix of keys</span>
          <input
            id="filter"
            class="mono"
            type="search"
            placeholder="Prefix, such as user:"
            autocomplete="off"
            autocapitalize="off"

            onInput={(event: Event) => type((event.target as HTMLInputElement).value)}
          />
        </label>
        <Loading of={page} rows={8}>
          {({ records }) =>
            records.length === 0 ? (
              <Empty title={prefix === "" ? "No records yet" : "No key begins with that"}>
                {prefix === ""
                  ? "Make one here, or let an application: every record has a TTL, and is gone on time."
                  : "Keys are compared byte by byte, upper and lower case apart."}
              </Empty>
            ) : (
              <RecordTable records={records} onOpen={setOpened} />
            )
          }
        </Loading>
        <Pager cursors={cursors} next={next} isNumbered onTurn={setCursors} />
      </Card>
      {opened === null ? null : (
        <RecordDialog
          session={session}
          recordKey={opened.key}
          kind={opened.kind}
          onClose={() => setOpened(null)}
          onChange={page.reload}
        />
      )}
      {newRecord}
    </>
  );
}

/** A page that is full, or the last one: those of the server may have few records, or none. */
async function pageOf(
  session: Session,
  prefix: string,
  from: Uint8Array | null,
  signal: AbortSignal,
): Promise<RecordPage> {
  const records: ListedRecord[] = [];
  let cursor = from;
  do {
    const options = { prefix, limit: PAGE_RECORDS - records.length, signal };
    const page = await session.throttr.list(cursor === null ? options : { ...options, cursor });
    records.push(...page.records);
    ({ cursor } = page);
  } while (cursor !== null && records.length < PAGE_RECORDS);
  return { records, cursor };
}

function RecordTable({
  records,
  onOpen,
}: {
  readonly records: readonly ListedRecord[];
  readonly onOpen: (record: ListedRecord) => void;
}) {
  return (
    <Table
      label="Records"
      rows={records}
      keyOf={({ key }) => nameText(key)}
      rowClass={() => "opens"}
      isCompact
      columns={[
        {
          head: "Key",
          isTitle: true,
          cell: (record) => (
            <button type="button" class="link mono" onClick={() => onOpen(record)}>
              {nameText(record.key)}
            </button>
          ),
        },
        { head: "Kind", cell: ({ kind }) => <span class={`badge ${kind}`}>{kind}</span> },
        {
          head: "Quota or size",
          isNumber: true,
          cell: (record) =>
            record.quota === null ? formatBytes(record.bytes ?? 0) : formatCount(record.quota),
        },
        {
          head: "Time left",
          isNumber: true,
          cell: ({ expiresAtMs }) => <Countdown untilMs={expiresAtMs} />,
        },
      ]}
    />
  );
}
