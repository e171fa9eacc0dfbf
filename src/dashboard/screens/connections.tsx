/** Connections: who is there, and what each has asked. */
import { useState } from "hono/jsx/dom";
import {
  Button,
  Card,
  Copy,
  Dialog,
  Empty,
  Facts,
  Lack,
  Loading,
  ScreenHead,
  Since,
  Table,
} from "../controls/index.ts";
import { counted, formatBytes, formatCount, formatMoment } from "../format.ts";
import { useLoaded } from "../hooks.ts";
import { jsonOf, lacksScope, type Session } from "../session.ts";

/** A page of `GET /v1/connections`. */
interface ConnectionPage {
  readonly connections: readonly Connection[];
  readonly cursor: string | null;
}

interface Connection {
  readonly id: string;
  readonly transport: keyof typeof TRANSPORTS;
  /** Empty where it is not known. */
  readonly ip: string;
  readonly port: number;
  readonly connectedAtMs: number;
  readonly readBytes: number;
  readonly writeBytes: number;
  readonly publishedBytes: number;
  readonly receivedBytes: number;
  readonly requests: number;
  readonly requestsByType: Readonly<Record<string, number>>;
}

const TRANSPORTS = { tcp: "TCP", websocket: "WebSocket", events: "Events" };
/** That are loaded: the filter looks through all of these. */
const LOADED_MAX = 20_000;
const LOADED_AT_ONCE = 1000;
const PAGE_CONNECTIONS = 100;
const REFRESH_MS = 5000;
const LEAD = "Over TCP, WebSocket and Server-Sent Events";

export function ConnectionsScreen({ session }: { readonly session: Session }) {
  if (!lacksScope(session, "admin")) return <ConnectionList session={session} />;
  return (
    <>
      <ScreenHead title="Connections" lead={LEAD} />
      <Lack scope="admin" />
    </>
  );
}

function ConnectionList({ session }: { readonly session: Session }) {
  const [filter, setFilter] = useState("");
  const [shownMax, setShownMax] = useState(PAGE_CONNECTIONS);
  const [isFollowing, setFollowing] = useState(false);
  const [openedId, setOpenedId] = useState<string | null>(null);
  const connections = useLoaded(
    async (signal) => await listed(session, signal),
    [session],
    isFollowing ? REFRESH_MS : null,
  );
  const opened = connections.value?.connections.find(({ id }) => id === openedId) ?? null;
  return (
    <>
      <ScreenHead title="Connections" lead={LEAD}>
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onInput={(event: Event) => setFollowing((event.target as HTMLInputElement).checked)}
          />
          Every 5 s
        </label>
        <Button
          label="Load again"
          icon="reload"
          isBusy={connections.isLoading}
          onPress={connections.reload}
        />
      </ScreenHead>
      <Card
        title="Open now"
        aside={
          connections.value === null ? null : (
            <span class="figure">
              {connections.value.cursor === null ? "" : "First "}
              {counted(connections.value.connections.length, "connection")}
            </span>
          )
        }
      >
        <label class="field search">
          <span class="unseen">Part of an id or address</span>
          <input
            id="filter"
            class="mono"
            type="search"
            placeholder="Part of an id or address"
            autocomplete="off"

            onInput={(event: Event) => setFilter((event.target as HTMLInputElement).value.trim())}
          />
        </label>
        <Loading of={connections} rows={5}>
          {({ connections: all }) => {
            const found = all.filter(({ id, ip }) => id.includes(filter) || ip.includes(filter));
            if (found.length === 0) {
              return filter === "" ? (
                <Empty title="Nobody is connected">
                  Requests over HTTP and service bindings are no connections.
                </Empty>
              ) : (
                <Empty title="No connection has that">Ids are hex digits.</Empty>
              );
            }
            return (
              <>
                <ConnectionTable connections={found.slice(0, shownMax)} onOpen={setOpenedId} />
                {found.length > shownMax ? (
                  <div class="pager">
                    <Button
                      label={`Show more of ${formatCount(found.length)}`}
                      onPress={() => setShownMax(shownMax + PAGE_CONNECTIONS)}
                    />
                  </div>
                ) : null}
              </>
            );
          }}
        </Loading>
      </Card>
      {opened === null ? null : (
        <ConnectionDialog connection={opened} onClose={() => setOpenedId(null)} />
      )}
    </>
  );
}

/** The first connections, as many as are loaded; the cursor says whether there are more. */
async function listed(session: Session, signal: AbortSignal): Promise<ConnectionPage> {
  const connections: Connection[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const path = `/v1/connections?limit=${LOADED_AT_ONCE}${query}`;
    const page: ConnectionPage = await jsonOf<ConnectionPage>(session, path, { signal });
    connections.push(...page.connections);
    cursor = page.cursor;
  } while (cursor !== null && connections.length < LOADED_MAX);
  return { connections, cursor };
}

const addressOf = ({ ip, port }: Connection): string =>
  ip === ""
    ? "not known"
    : port === 0
      ? ip
      : ip.includes(":")
        ? `[${ip}]:${port}`
        : `${ip}:${port}`;

function ConnectionTable({
  connections,
  onOpen,
}: {
  readonly connections: readonly Connection[];
  readonly onOpen: (id: string) => void;
}) {
  return (
    <Table
      label="Connections"
      rows={connections}
      keyOf={({ id }) => id}
      rowClass={() => "opens"}
      columns={[
        {
          head: "Id",
          isTitle: true,
          cell: ({ id }) => (
            <button type="button" class="link mono" title={id} onClick={() => onOpen(id)}>
              {id.slice(0, 12)}…
            </button>
          ),
        },
        {
          head: "Over",
          cell: ({ transport }) => <span class="badge">{TRANSPORTS[transport]}</span>,
        },
        { head: "From", cell: (connection) => <span class="mono">{addressOf(connection)}</span> },
        {
          head: "Connected for",
          isNumber: true,
          cell: ({ connectedAtMs }) => <Since sinceMs={connectedAtMs} />,
        },
        { head: "Requests", isNumber: true, cell: ({ requests }) => formatCount(requests) },
        { head: "Read", isNumber: true, cell: ({ readBytes }) => formatBytes(readBytes) },
        { head: "Written", isNumber: true, cell: ({ writeBytes }) => formatBytes(writeBytes) },
      ]}
    />
  );
}

function ConnectionDialog({
  connection,
  onClose,
}: {
  readonly connection: Connection;
  readonly onClose: () => void;
}) {
  const { id, transport, connectedAtMs, requests, requestsByType } = connection;
  const { readBytes, writeBytes, publishedBytes, receivedBytes } = connection;
  return (
    <Dialog title="Connection" onClose={onClose} isDrawer>
      <div class="stack">
        <Facts
          facts={[
            [
              "Id",
              <span class="with-button">
                <code>{id}</code>
                <Copy text={id} label="Copy id" />
              </span>,
            ],
            ["Over", <span class="badge">{TRANSPORTS[transport]}</span>],
            ["From", <span class="mono">{addressOf(connection)}</span>],
            ["Since", formatMoment(connectedAtMs)],
            ["Read from it", formatBytes(readBytes)],
            ["Written to it", formatBytes(writeBytes)],
            ["It has published", formatBytes(publishedBytes)],
            ["It was pushed", formatBytes(receivedBytes)],
            ["Requests", formatCount(requests)],
          ]}
        />
        <section class="part">
          <h3>Requests by type</h3>
          {requests === 0 ? (
            <Empty title="None yet">Requests are counted as long as the connection lives.</Empty>
          ) : (
            <Facts
              facts={Object.entries(requestsByType).map(
                ([name, count]) =>
                  [name, <span class="figure">{formatCount(count)}</span>] as const,
              )}
            />
          )}
        </section>
      </div>
    </Dialog>
  );
}
