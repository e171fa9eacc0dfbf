/**
 * Connections: from where each comes, since when, and its requests by type.
 *
 * The server lists them in the order in which they connected and has no filter, so all of them are loaded, up to a bound,
 * and filtered here.
 */
import { useState } from "hono/jsx/dom";
import type { ConnectionRow } from "../../wire/throttr/connection-row.ts";
import {
  Allowed,
  Button,
  Card,
  CopiedId,
  Dialog,
  Empty,
  Facts,
  figures,
  Loading,
  Opener,
  Refresh,
  ScreenHead,
  Search,
  Since,
  Table,
} from "../controls/index.ts";
import { counted, formatBytes, formatCount, formatMoment } from "../format.ts";
import { useListed } from "../hooks.ts";
import { useOpened, useTextParameter } from "../place.ts";
import { jsonOf, type Page } from "../server.ts";
import { lacksScope, type Session } from "../session.ts";
import { utf8Of } from "../value-text.ts";

type ConnectionPage = Page<"connections", Connection>;

/** Figures are called in JSON as they are in the row of the protocol. */
interface Connection extends Omit<
  ConnectionRow,
  "id" | "kind" | "allocatedBytes" | "consumedBytes" | "counts"
> {
  readonly id: string;
  readonly transport: keyof typeof TRANSPORTS;
  readonly requests: number;
  readonly requestsByType: Readonly<Record<string, number>>;
}

const TRANSPORTS = { tcp: "TCP", websocket: "WebSocket", events: "Events" };
/** Connections that are loaded, and that the filter looks through. */
const LOADED_MAX = 20_000;
const LOADED_AT_ONCE = 1000;
const PAGE_CONNECTIONS = 100;
const LEAD = "Over TCP, WebSocket and Server-Sent Events";

export function ConnectionsScreen({ session }: { readonly session: Session }) {
  if (!lacksScope(session, "admin")) return <ConnectionList session={session} />;
  return (
    <>
      <ScreenHead title="Connections" lead={LEAD} />
      <Allowed session={session} scope="admin" />
    </>
  );
}

function ConnectionList({ session }: { readonly session: Session }) {
  const [filter, setFilter] = useTextParameter("filter");
  const [shownMax, setShownMax] = useState(PAGE_CONNECTIONS);
  const [openedId, open] = useOpened("connection");
  const connections = useListed(async (signal) => await listed(session, signal), [session]);
  const opened =
    openedId === null
      ? undefined
      : connections.value?.connections.find(({ id }) => id === utf8Of(openedId));
  return (
    <>
      <ScreenHead title="Connections" lead={LEAD}>
        <Refresh of={connections} />
      </ScreenHead>
      <Card
        title="Open connections"
        aside={
          connections.value === null ? null : (
            <span class="figure">
              {connections.value.cursor === null ? "" : "First "}
              {counted(connections.value.connections.length, "connection")}
            </span>
          )
        }
      >
        <Search
          label="Part of an ID or address"
          placeholder="Part of an ID or address"
          value={filter}
          onText={(text) => setFilter(text.trim())}
        />
        <Loading of={connections} rows={5}>
          {({ connections: all }) => {
            const found = all.filter(({ id, ip }) => id.includes(filter) || ip.includes(filter));
            if (found.length === 0) {
              return filter === "" ? (
                <Empty title="No connections">
                  HTTP requests and service bindings do not open connections.
                </Empty>
              ) : (
                <Empty title="No connection matches">IDs consist of hex digits.</Empty>
              );
            }
            return (
              <>
                <ConnectionTable
                  connections={found.slice(0, shownMax)}
                  onOpen={(id) => open(new TextEncoder().encode(id))}
                />
                {found.length > shownMax ? (
                  <div class="pager hint">
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
      {opened === undefined ? null : (
        <ConnectionDialog connection={opened} onClose={() => open(null)} />
      )}
    </>
  );
}

/** Loads the first connections, up to the limit; the cursor says whether there are more. */
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
  ip === "" ? "unknown" : port === 0 ? ip : ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;

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
      opens
      columns={[
        {
          head: "ID",
          isTitle: true,
          cell: ({ id }) => (
            <Opener text={`${id.slice(0, 12)}…`} title={id} onOpen={() => onOpen(id)} />
          ),
        },
        {
          head: "Transport",
          cell: ({ transport }) => <span class="badge">{TRANSPORTS[transport]}</span>,
        },
        {
          head: "Address",
          cell: (connection) => <span class="mono">{addressOf(connection)}</span>,
        },
        {
          head: "Connected for",
          isNumber: true,
          sortBy: ({ connectedAtMs }) => -connectedAtMs,
          cell: ({ connectedAtMs }) => <Since sinceMs={connectedAtMs} />,
        },
        figures("Requests", ({ requests }: Connection) => requests),
        figures("Received", ({ readBytes }: Connection) => readBytes, formatBytes),
        figures("Sent", ({ writeBytes }: Connection) => writeBytes, formatBytes),
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
            ["ID", <CopiedId id={id} />],
            ["Transport", <span class="badge">{TRANSPORTS[transport]}</span>],
            ["Address", <span class="mono">{addressOf(connection)}</span>],
            ["Connected since", formatMoment(connectedAtMs)],
            ["Received from client", formatBytes(readBytes)],
            ["Sent to client", formatBytes(writeBytes)],
            ["Published by client", formatBytes(publishedBytes)],
            ["Pushed to client", formatBytes(receivedBytes)],
            ["Requests", formatCount(requests)],
          ]}
        />
        <section class="part">
          <h3>Requests by type</h3>
          {requests === 0 ? (
            <Empty title="None yet">Requests are counted while the connection is open.</Empty>
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
