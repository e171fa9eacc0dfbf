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
} from "../controls.tsx";
import { COUNTED_REQUESTS, readConnections, type Connection } from "../connection-rows.ts";
import { counted, formatBytes, formatCount, formatMoment } from "../format.ts";
import { useLoaded } from "../hooks.ts";
import { answerOf, inTime, lacksScope, type Session } from "../session.ts";
import { RequestType } from "../../wire/throttr/requests.ts";

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
  const opened = connections.value?.find(({ id }) => id === openedId) ?? null;
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
            <span class="figure">{counted(connections.value.length, "connection")}</span>
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
          {(all) => {
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

async function listed(session: Session, signal: AbortSignal): Promise<Connection[]> {
  const body = Uint8Array.of(RequestType.connections);
  const answer = await answerOf(session, "/throttr/edge", {
    method: "POST",
    isRead: true,
    body,
    signal: inTime(signal),
  });
  return readConnections(new Uint8Array(await answer.arrayBuffer()));
}

const requestsOf = ({ requests }: Connection): number =>
  requests.reduce((sum, count) => sum + count, 0);

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
        { head: "Over", cell: ({ kind }) => <span class="badge">{kind}</span> },
        { head: "From", cell: (connection) => <span class="mono">{addressOf(connection)}</span> },
        {
          head: "Connected for",
          isNumber: true,
          cell: ({ connectedAtMs }) => <Since sinceMs={connectedAtMs} />,
        },
        { head: "Requests", isNumber: true, cell: (row) => formatCount(requestsOf(row)) },
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
  const { id, kind, connectedAtMs, readBytes, writeBytes, publishedBytes, receivedBytes } =
    connection;
  const asked = connection.requests
    .map((count, i) => [COUNTED_REQUESTS[i]!, count] as const)
    .filter(([, count]) => count > 0);
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
            ["Over", <span class="badge">{kind}</span>],
            ["From", <span class="mono">{addressOf(connection)}</span>],
            ["Since", formatMoment(connectedAtMs)],
            ["Read from it", formatBytes(readBytes)],
            ["Written to it", formatBytes(writeBytes)],
            ["It has published", formatBytes(publishedBytes)],
            ["It was pushed", formatBytes(receivedBytes)],
          ]}
        />
        <section class="part">
          <h3>Requests by type</h3>
          {asked.length === 0 ? (
            <Empty title="None yet">Counters live as long as the connection.</Empty>
          ) : (
            <Facts
              facts={asked.map(
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
