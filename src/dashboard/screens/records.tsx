/** Records: browsed by prefix and kind, page by page. */
import { useState, type Child } from "hono/jsx/dom";
import { ThrottrError, type ListedRecord } from "../../client/index.ts";
import {
  Allowed,
  Button,
  Card,
  Choice,
  Countdown,
  Empty,
  Loading,
  Opener,
  Pager,
  Refresh,
  ScreenHead,
  Search,
  Table,
} from "../controls/index.ts";
import { formatBytes, formatCount } from "../format.ts";
import { useListed, usePages } from "../hooks.ts";
import { limiterStateOf, type LimiterState } from "../limiter-state.ts";
import { useOpened, useTextParameter } from "../place.ts";
import { lacksScope, type Session } from "../session.ts";
import { nameText } from "../value-text.ts";
import { NewRecord } from "./new-record.tsx";
import { RecordDialog } from "./record.tsx";

const PAGE_RECORDS = 50;
/** Pages of the server that are read for one page here: a filter by kind may leave out all of their records. */
const READS_MAX = 40;
/** The state of a limit is shorter, unless it has many quotas. Larger buffers are not read for the list. */
const LIMIT_BYTES_MAX = 512;

const KINDS = { "": "All kinds", counter: "Counters", buffer: "Buffers", limit: "Limits" };
/** A limit is a buffer to the server: its value says that a limiter has written it. */
type Kind = Exclude<keyof typeof KINDS, "">;

/** A record as the list shows it. */
interface Row extends Omit<ListedRecord, "kind"> {
  readonly kind: Kind;
  /** The quota, the size, or how much of a limit is left or used. */
  readonly content: Child;
}

interface Page {
  readonly rows: readonly Row[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

export function RecordsScreen({ session }: { readonly session: Session }) {
  const [prefix, setPrefix] = useTextParameter("prefix");
  const [kind, setKind] = useTextParameter("kind");
  const [openedKey, open] = useOpened("record");
  const [cursors, turn] = usePages<Uint8Array>(`${kind} ${prefix}`);
  const [isNew, setNew] = useState(false);
  const isReadable = !lacksScope(session, "read");
  const page = useListed(
    isReadable
      ? (signal) => readPage(session, { prefix, kind, from: cursors.at(-1) ?? null, signal })
      : null,
    [session, prefix, kind, cursors],
  );
  const isFiltered = prefix !== "" || kind !== "";
  const openedName = openedKey === null ? null : nameText(openedKey);
  const listed = page.value?.rows.find(({ key }) => nameText(key) === openedName);
  return (
    <>
      <ScreenHead title="Records" lead="Counters, buffers and rate limits">
        {isReadable ? <Refresh of={page} /> : null}
        {lacksScope(session, "write") ? null : (
          <Button label="New record" icon="add" kind="primary" onPress={() => setNew(true)} />
        )}
      </ScreenHead>
      <Allowed session={session} scope="read">
        <Card title={prefix === "" ? "All keys" : `Keys that begin with “${prefix}”`}>
          <div class="filters">
            <Search
              label="Prefix of keys"
              placeholder="Prefix, such as user:"
              value={prefix}
              onText={setPrefix}
            />
            <Choice
              label="Kind"
              name="kind"
              options={KINDS}
              value={kind}
              isLabelHidden
              onChoice={setKind}
            />
          </div>
          <Loading of={page} rows={8}>
            {({ rows, cursor }) =>
              rows.length > 0 ? (
                <RecordTable rows={rows} onOpen={open} />
              ) : isFiltered ? (
                <Empty title={cursor === null ? "No record matches" : "None found so far"}>
                  {cursor === null
                    ? "Prefixes are case-sensitive."
                    : "Press Next to search further."}
                </Empty>
              ) : (
                <Empty title="No records yet">
                  Create one here, or connect an application. Every record has a TTL and expires on
                  time.
                </Empty>
              )
            }
          </Loading>
          <Pager
            cursors={cursors}
            next={page.value?.cursor ?? null}
            isBusy={!page.isCurrent}
            isNumbered
            onTurn={turn}
          />
        </Card>
      </Allowed>
      {openedKey === null ? null : (
        <RecordDialog
          key={openedName}
          session={session}
          recordKey={openedKey}
          kind={listed?.kind === "counter" ? "counter" : "buffer"}
          onClose={() => open(null)}
          onChange={page.reload}
        />
      )}
      {isNew ? (
        <NewRecord
          session={session}
          prefix={prefix}
          onClose={() => setNew(false)}
          onCreated={page.reload}
        />
      ) : null}
    </>
  );
}

interface Asked {
  readonly prefix: string;
  readonly kind: string;
  readonly from: Uint8Array | null;
  readonly signal: AbortSignal;
}

/** Reads until a page is full or the records end: pages of the server may have few records, or none that match. */
async function readPage(session: Session, { prefix, kind, from, signal }: Asked): Promise<Page> {
  const rows: Row[] = [];
  let cursor = from;
  for (let reads = 0; reads < READS_MAX; reads++) {
    const options = { prefix, limit: PAGE_RECORDS - rows.length, signal };
    const page = await session.throttr.list(cursor === null ? options : { ...options, cursor });
    const read = await Promise.all(
      page.records
        .filter((record) => kind === "" || (kind === "counter") === (record.kind === "counter"))
        .map(async (record) => await rowOf(session, record, signal)),
    );
    rows.push(...read.filter((row) => kind === "" || row.kind === kind));
    ({ cursor } = page);
    if (cursor === null || rows.length === PAGE_RECORDS) break;
  }
  return { rows, cursor };
}

/** Reads short buffers whose key is that of a limit, `name:key`; the client sends all these calls together. */
async function rowOf(
  { throttr }: Session,
  record: ListedRecord,
  signal: AbortSignal,
): Promise<Row> {
  const { key, kind, bytes } = record;
  if (kind === "counter") return { ...record, kind, content: formatCount(record.quota!) };
  const row = { ...record, kind, content: formatBytes(bytes!) };
  if (bytes! > LIMIT_BYTES_MAX || !nameText(key).includes(":")) return row;
  const buffer = await throttr.get(key, { signal }).catch((error: unknown) => {
    // It has become a counter since it was listed.
    if (ThrottrError.from(error).code === "kind_mismatch") return null;
    throw error;
  });
  const state = buffer === null ? null : limiterStateOf(buffer.value);
  return state === null ? row : { ...row, kind: "limit", content: <Summary of={state} /> };
}

/** How much of a limit is left or used, and when GCRA allows a whole burst again. */
function Summary({ of: { summary, wholeAtMs } }: { readonly of: LimiterState }) {
  return (
    <>
      {summary}
      {summary === "" || wholeAtMs === null ? "" : ", "}
      {wholeAtMs === null ? null : (
        <Countdown untilMs={wholeAtMs} before="whole burst in " ended="whole burst" />
      )}
    </>
  );
}

function RecordTable({
  rows,
  onOpen,
}: {
  readonly rows: readonly Row[];
  readonly onOpen: (key: Uint8Array) => void;
}) {
  return (
    <Table
      label="Records"
      rows={rows}
      keyOf={({ key }) => nameText(key)}
      opens
      isCompact
      columns={[
        {
          head: "Key",
          isTitle: true,
          sortBy: ({ key }) => nameText(key),
          cell: ({ key }) => <Opener text={nameText(key)} onOpen={() => onOpen(key)} />,
        },
        {
          head: "Kind",
          sortBy: ({ kind }) => kind,
          cell: ({ kind }) => <span class={`badge ${kind}`}>{kind}</span>,
        },
        {
          head: "Content",
          isNumber: true,
          sortBy: ({ quota, bytes }) => quota ?? BigInt(bytes!),
          cell: ({ content }) => content,
        },
        {
          head: "Time left",
          isNumber: true,
          sortBy: ({ expiresAtMs }) => expiresAtMs,
          cell: ({ expiresAtMs }) => <Countdown untilMs={expiresAtMs} />,
        },
      ]}
    />
  );
}
