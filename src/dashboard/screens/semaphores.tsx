/**
 * Semaphores: how much of each is held, by which holders, and leases acquired and released by hand.
 *
 * A semaphore has no stored maximum: each acquire names one. So the screen shows what is held, and no share of anything.
 */
import { useState } from "hono/jsx/dom";
import {
  Allowed,
  Button,
  Card,
  Confirm,
  CopiedId,
  Countdown,
  Dialog,
  Empty,
  Field,
  figures,
  Form,
  Loading,
  Opener,
  Pager,
  Refresh,
  ScreenHead,
  Table,
  TimeFields,
} from "../controls/index.ts";
import { counted, formatCount } from "../format.ts";
import { notify, useListed, useLoaded } from "../hooks.ts";
import { useOpened } from "../place.ts";
import { jsonOf, type Page } from "../server.ts";
import { lacksScope, type Session } from "../session.ts";
import { integerOf, ttlOf, type Fields } from "../strategies.ts";
import { bytesOfName, pathOf, type NameFields } from "../names.ts";
import { nameText } from "../value-text.ts";

interface ListedSemaphore extends NameFields<"name"> {
  readonly consumption: number;
  /** The largest consumption in this interval of statistics. */
  readonly mostHeld: number;
}

interface Holder {
  readonly kind: "connection" | "lease";
  readonly id: string;
  readonly resources: number;
  readonly expiresAtMs: number | null;
}

const PAGE_ROWS = 100;
const encoder = new TextEncoder();

export function SemaphoresScreen({ session }: { readonly session: Session }) {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const [opened, setOpened] = useOpened("semaphore");
  const [isFreeShown, setFreeShown] = useState(false);
  const isReadable = !lacksScope(session, "read");
  const page = useListed(
    isReadable
      ? async (signal) => {
          const cursor = cursors.at(-1);
          const query = `limit=${PAGE_ROWS}${cursor === undefined ? "" : `&cursor=${cursor}`}`;
          return await jsonOf<Page<"semaphores", ListedSemaphore>>(
            session,
            `/v1/semaphores?${query}`,
            { signal },
          );
        }
      : null,
    [session, cursors],
  );
  const next = page.value?.cursor ?? null;
  return (
    <>
      <ScreenHead title="Semaphores" lead="Resources held by connections and leases">
        {isReadable ? <Refresh of={page} /> : null}
      </ScreenHead>
      <div class="columns">
        <Card title="In use">
          <Allowed session={session} scope="read">
            <Loading of={page} rows={5}>
              {({ semaphores }) =>
                semaphores.length === 0 ? (
                  <Empty title="No semaphores">
                    A semaphore is created when it is first acquired, and removed when it has been
                    free for a while.
                  </Empty>
                ) : (
                  <SemaphoreTable
                    semaphores={semaphores}
                    isWhole={cursors.length === 0 && next === null}
                    isFreeShown={isFreeShown}
                    onOpen={setOpened}
                    onShowFree={() => setFreeShown(true)}
                  />
                )
              }
            </Loading>
          </Allowed>
          {cursors.length === 0 && next === null ? null : (
            <Pager cursors={cursors} next={next} isBusy={!page.isCurrent} onTurn={setCursors} />
          )}
        </Card>
        {lacksScope(session, "write") ? null : (
          <Card title="Acquire a lease">
            <AcquireForm session={session} onAcquired={page.reload} />
          </Card>
        )}
      </div>
      {opened === null ? null : (
        <HoldersDialog
          key={nameText(opened)}
          session={session}
          name={opened}
          onClose={() => setOpened(null)}
          onChange={page.reload}
        />
      )}
    </>
  );
}

function SemaphoreTable({
  semaphores,
  isWhole,
  isFreeShown,
  onOpen,
  onShowFree,
}: {
  readonly semaphores: readonly ListedSemaphore[];
  /** There are no other pages. */
  readonly isWhole: boolean;
  /** Lists free semaphores, too. */
  readonly isFreeShown: boolean;
  readonly onOpen: (name: Uint8Array) => void;
  readonly onShowFree: () => void;
}) {
  const held = semaphores.filter(({ consumption }) => consumption > 0);
  const free = semaphores.length - held.length;
  return (
    <>
      {held.length === 0 && !isFreeShown ? (
        <Empty title={isWhole ? "Nothing is held" : "Nothing on this page is held"}>
          A free semaphore stays listed for a while and keeps its statistics.
        </Empty>
      ) : (
        <Table
          label="Semaphores"
          rows={isFreeShown ? semaphores : held}
          keyOf={({ name, nameBase64 }) => name ?? `base64 ${nameBase64}`}
          opens
          columns={[
            {
              head: "Semaphore",
              isTitle: true,
              cell: (semaphore) => {
                const name = bytesOfName(semaphore, "name");
                return <Opener text={nameText(name)} onOpen={() => onOpen(name)} />;
              },
            },
            figures("Held now", ({ consumption }: ListedSemaphore) => consumption),
            figures("Most held", ({ mostHeld }: ListedSemaphore) => mostHeld),
          ]}
        />
      )}
      <p class="hint">
        “Most held” is the highest amount since the last reset of the statistics. By default the
        server resets them daily.
      </p>
      {free === 0 || isFreeShown ? null : (
        <Button label={`Show ${counted(free, "free semaphore")}`} onPress={onShowFree} />
      )}
    </>
  );
}

function AcquireForm({
  session,
  onAcquired,
}: {
  readonly session: Session;
  readonly onAcquired: () => void;
}) {
  const acquire = async (fields: Fields): Promise<void> => {
    const name = fields("name");
    const body = {
      resources: Number(integerOf(fields, "resources", "from 1")),
      maximum: Number(integerOf(fields, "maximum", "from 1")),
      ttlMs: ttlOf(fields),
    };
    const path = pathOf("/v1/semaphores/", "name", encoder.encode(name), "/leases");
    await jsonOf(session, path, { method: "POST", body });
    onAcquired();
    notify(`Acquired ${counted(body.resources, "resource")} of ${name}`);
  };
  return (
    <Form submit="Acquire" onSubmit={acquire}>
      <Field label="Semaphore" name="name" placeholder="builds" isMono />
      <div class="pair">
        <Field label="Resources" name="resources" value="1" isNumber />
        <Field label="Maximum" name="maximum" value="10" isNumber />
      </div>
      <TimeFields label="Lease for" name="ttl" unitName="unit" value="5" unit="min" />
      <p class="hint">
        The server does not store the maximum: each call states how many resources all holders
        together may hold.
      </p>
    </Form>
  );
}

function HoldersDialog({
  session,
  name,
  onClose,
  onChange,
}: {
  readonly session: Session;
  readonly name: Uint8Array;
  readonly onClose: () => void;
  readonly onChange: () => void;
}) {
  const pathTo = (after: string): string => pathOf("/v1/semaphores/", "name", name, after);
  const isAllowed = !lacksScope(session, "admin");
  const isReleasable = !lacksScope(session, "write");
  const [released, setReleased] = useState<Holder | null>(null);
  const page = useLoaded(
    isAllowed
      ? async (signal) =>
          await jsonOf<Page<"holders", Holder>>(session, pathTo(`/holders?limit=${PAGE_ROWS}`), {
            signal,
          })
      : null,
    [session, name],
  );
  const release = async (): Promise<void> => {
    await jsonOf(session, pathTo(`/leases/${released!.id}`), { method: "DELETE" });
    setReleased(null);
    notify("Released");
    page.reload();
    onChange();
  };
  return (
    <Dialog title={nameText(name)} onClose={onClose} isDrawer>
      <Allowed session={session} scope="admin">
        <Loading of={page}>
          {({ holders, cursor }) =>
            holders.length === 0 ? (
              <Empty title="No holders">This semaphore is free. It is removed after a while.</Empty>
            ) : (
              <>
                <Table
                  label="Holders"
                  rows={holders}
                  keyOf={({ id }) => id}
                  columns={[
                    {
                      head: "Holder",
                      isTitle: true,
                      cell: ({ id }) => <CopiedId id={id} shown={`${id.slice(0, 13)}…`} />,
                    },
                    { head: "Kind", cell: ({ kind }) => <span class="badge">{kind}</span> },
                    {
                      head: "Holds",
                      isNumber: true,
                      cell: ({ resources }) => formatCount(resources),
                    },
                    {
                      head: "Expires",
                      isNumber: true,
                      cell: ({ expiresAtMs }) =>
                        expiresAtMs === null ? (
                          "when its connection closes"
                        ) : (
                          <Countdown untilMs={expiresAtMs} />
                        ),
                    },
                    {
                      head: "Action",
                      cell: (holder) =>
                        holder.kind === "lease" && isReleasable ? (
                          <Button label="Release" onPress={() => setReleased(holder)} />
                        ) : null,
                    },
                  ]}
                />
                {cursor === null ? null : (
                  <p class="hint">Only the first {PAGE_ROWS} holders are listed.</p>
                )}
              </>
            )
          }
        </Loading>
      </Allowed>
      {released === null ? null : (
        <Confirm
          title="Release this lease?"
          submit="Release"
          onClose={() => setReleased(null)}
          onConfirm={release}
        >
          <p>
            Its holder may still be working. Its {counted(released.resources, "resource")} can be
            acquired by others at once.
          </p>
        </Confirm>
      )}
    </Dialog>
  );
}
