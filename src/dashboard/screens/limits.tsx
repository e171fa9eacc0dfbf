/**
 * Limits: what rate limits grant and refuse, for which keys, and what to do about these.
 *
 * Each answer asks all shards of the namespace, so the screen asks every two seconds, and only while it is seen.
 */
import { useRef, type Child } from "hono/jsx/dom";
import type { LimitFigures, LimitRates, OneLimitFigures } from "../../wire/limit-figures.ts";
import { RangedChart, type Lines } from "../chart.tsx";
import {
  Allowed,
  Bar,
  Button,
  Card,
  Empty,
  Failure,
  Opener,
  ScreenHead,
  Search,
  Skeleton,
  Table,
  Tile,
  type Column,
} from "../controls/index.ts";
import {
  countsOfMinute,
  DecisionSamples,
  localShare,
  refusedShare,
  sumOf,
  type Decisions,
  type DecisionTotals,
} from "../decisions.ts";
import { useEffect } from "../effect.ts";
import { formatRate, formatShare, formatTile } from "../format.ts";
import { countsByMinute, useHistory } from "../history.ts";
import { useLoaded, type Loaded } from "../hooks.ts";
import { pointsOfHour } from "../last-hour.ts";
import { escapedBytes, pathOf } from "../names.ts";
import { OtherNamespaces } from "../namespace-picker.tsx";
import { useOpened, useTextParameter } from "../place.ts";
import { isUnreached } from "../rights.ts";
import { learnClock, serverNowMs } from "../server-clock.ts";
import { isUnknownRoute, jsonOf } from "../server.ts";
import { lacksScope, type Session } from "../session.ts";
import { utf8Of } from "../value-text.ts";
import { KeyCards, type Keys } from "./limit-keys.tsx";

const EVERY_MS = 2000;
const MINUTE_S = 60;
const NAMES = ["granted", "refused"];
const COLOURS = ["--good", "--bad"];
/** A refused share from here on is shown as bad. */
const BAD_SHARE = 0.5;

const encoder = new TextEncoder();

export function LimitsScreen({ session }: { readonly session: Session }) {
  const [opened, open] = useOpened("limit");
  const name = opened === null ? null : utf8Of(opened);
  useFocusOnTitle(name);
  const openLimit = (name: string | null): void =>
    open(name === null ? null : encoder.encode(name));
  return name === null ? (
    <AllLimits key="all" session={session} onOpen={openLimit} />
  ) : (
    <OneLimit key={name} session={session} name={name} onClose={() => openLimit(null)} />
  );
}

/** The button that was pressed is gone with its list: the focus goes to the title of what has come. */
function useFocusOnTitle(name: string | null): void {
  const before = useRef(name);
  useEffect(() => {
    if (before.current === name) return;
    before.current = name;
    document.getElementById("screen-title")?.focus();
  }, [name]);
}

function AllLimits({
  session,
  onOpen,
}: {
  readonly session: Session;
  readonly onOpen: (name: string) => void;
}) {
  const watched = useDecisions(session, "/v1/limits", (figures: LimitFigures) => ({
    ...figures,
    rates: sumOf(figures),
  }));
  const figures = watched.value;
  return (
    <>
      <Head title="Limits" lead="What rate limits grant and refuse" watched={watched} />
      <Allowed session={session} scope="admin">
        <NotLoaded watched={watched} />
        {figures === null ? null : figures.limits.length === 0 && figures.others === null ? (
          <Empty title="No decisions yet">
            A limiter is listed here from its first decision on. <TryLink>Try one by hand</TryLink>,
            or connect an application.
            {session.grant.isForAllNamespaces ? <OtherNamespaces session={session} /> : null}
          </Empty>
        ) : (
          <>
            <Figures
              session={session}
              name={null}
              samples={watched.samples}
              rates={sumOf(figures)}
            />
            <Unreachable shards={figures.unreachableShards} />
            <LimitList figures={figures} onOpen={onOpen} />
            <KeyCards
              session={session}
              mostRefused={figures.mostRefused}
              hottest={figures.hottest}
              onLimit={onOpen}
            />
          </>
        )}
      </Allowed>
    </>
  );
}

function OneLimit({
  session,
  name,
  onClose,
}: {
  readonly session: Session;
  readonly name: string;
  readonly onClose: () => void;
}) {
  const path = pathOf("/v1/limits/", "name", encoder.encode(name));
  const watched = useDecisions(session, path, (figures: OneLimitFigures) => ({
    ...figures,
    rates: figures,
  }));
  const figures = watched.value;
  const keysOf = (keys: OneLimitFigures["hottest"]): Keys => keys.map((key) => ({ ...key, name }));
  return (
    <>
      <Head title={`Limit ${name}`} lead="What it grants and refuses" watched={watched} name={name}>
        <Button label="All limits" icon="previous" onPress={onClose} />
      </Head>
      <Allowed session={session} scope="admin">
        <NotLoaded watched={watched} />
        {figures === null ? null : (
          <>
            <Figures session={session} name={name} samples={watched.samples} rates={figures} />
            <Unreachable shards={figures.unreachableShards} />
            <KeyCards
              session={session}
              mostRefused={keysOf(figures.mostRefused)}
              hottest={keysOf(figures.hottest)}
              onLimit={null}
            />
          </>
        )}
      </Allowed>
    </>
  );
}

interface Watched<Figures> extends Loaded<Figures> {
  readonly samples: DecisionSamples;
}

/** Samples by path: they stay for the next visit to the screen, so that the chart goes on. */
const samplesOf = new WeakMap<Session, Map<string, DecisionSamples>>();

/** Asks for figures again and again, and keeps the rates between two answers. */
function useDecisions<Figures extends { readonly atMs: number }>(
  session: Session,
  path: string,
  totalsOf: (figures: Figures) => DecisionTotals,
): Watched<Figures> {
  const known = samplesOf.get(session) ?? new Map<string, DecisionSamples>();
  samplesOf.set(session, known);
  const samples = known.get(path) ?? new DecisionSamples();
  known.set(path, samples);
  const load = async (signal: AbortSignal): Promise<Figures> => {
    const figures = await jsonOf<Figures>(session, path, { signal });
    learnClock(figures.atMs);
    samples.add(totalsOf(figures));
    return figures;
  };
  const isAllowed = !lacksScope(session, "admin");
  const loaded = useLoaded(isAllowed ? load : null, [session, path], isAllowed ? EVERY_MS : null);
  return { ...loaded, samples };
}

function Head({
  title,
  lead,
  watched: { value, error },
  name,
  children,
}: {
  readonly title: string;
  readonly lead: string;
  readonly watched: Loaded<unknown>;
  readonly name?: string;
  readonly children?: Child;
}) {
  return (
    <ScreenHead title={title} lead={lead}>
      {value === null ? null : (
        <span class={`status hint ${error === null ? "live" : "lost"}`}>
          <span class="dot" />
          {error === null ? "Live" : "Connection lost. Retrying…"}
        </span>
      )}
      {children}
      <TryLink isButton {...(name === undefined ? {} : { name })}>
        Try a limiter
      </TryLink>
    </ScreenHead>
  );
}

/** Leads to the form that tries a limit by hand. */
function TryLink({
  name,
  isButton = false,
  children,
}: {
  /** Of the limiter that the form begins with. */
  readonly name?: string;
  readonly isButton?: boolean;
  readonly children: Child;
}) {
  const query = name === undefined ? "" : `?name=${escapedBytes(encoder.encode(name))}`;
  return (
    <a class={isButton ? "button plain" : ""} href={`#limiter${query}`}>
      {children}
    </a>
  );
}

/** What stands in place of figures that have not come, or could not be renewed. */
function NotLoaded({
  watched: { value, error, reload, isLoading },
}: {
  readonly watched: Loaded<unknown>;
}) {
  if (error === null) return value === null ? <Skeleton rows={8} /> : null;
  if (error.code === "limit_absent") {
    return <Empty title="No decisions yet">No shard has counted a limiter of this name.</Empty>;
  }
  if (isUnknownRoute(error)) {
    return <Empty title="Not counted">The server runs a release that counts no decisions.</Empty>;
  }
  return (
    <div class="failed">
      <Failure error={error} isAskedAgain={isUnreached(error)} />
      <Button label="Retry" onPress={reload} isBusy={isLoading} />
    </div>
  );
}

/** Tiles and the chart: of one limiter, or of all together. */
function Figures({
  session,
  name,
  samples,
  rates,
}: {
  readonly session: Session;
  readonly name: string | null;
  readonly samples: DecisionSamples;
  readonly rates: LimitRates;
}) {
  const minutes = useHistory(session);
  const { points, rates: perSecond } = samples;
  const lines = (points: Lines["points"]): Lines => ({ names: NAMES, colours: COLOURS, points });
  const share = refusedShare(rates);
  // Before the second answer, the mean of the last minute.
  const rate = (outcome: keyof Decisions): number =>
    perSecond?.[outcome] ?? rates[outcome].perMinute / MINUTE_S;
  const total = ({ total }: LimitRates["allowed"]): string => `${formatTile(total)} in all`;
  return (
    <>
      <div class="tiles">
        <Tile
          name="Granted per second"
          figure={formatRate(rate("allowed"))}
          note={total(rates.allowed)}
        />
        <Tile
          name="Refused per second"
          figure={formatRate(rate("refused"))}
          note={total(rates.refused)}
          isMain
        />
        <Tile
          name="Refused share"
          figure={share === null ? null : formatShare(share)}
          note="of the last minute"
        />
        <Tile
          name="Errors per second"
          figure={formatRate(rate("errors"))}
          note={total(rates.errors)}
        />
      </div>
      <LocalShare rates={rates} />
      <RangedChart
        title="Decisions per second"
        label="Granted and refused per second"
        hour={
          minutes &&
          lines(
            pointsOfHour(
              countsByMinute(minutes, (minute) => countsOfMinute(minute, name)),
              points,
              { lines: NAMES.length, nowMs: serverNowMs() },
            ),
          )
        }
        live={lines(points)}
      />
    </>
  );
}

/** How much is decided without a call for each decision; nothing where all of it is. */
function LocalShare({ rates }: { readonly rates: LimitRates }) {
  const share = localShare(rates);
  if (share === null || share === 0) return null;
  return (
    <p class="hint">
      {formatShare(share)} of the decisions of the last minute were made by callers from allowances.
    </p>
  );
}

/** Shards that figures lack; nothing where all have answered. */
function Unreachable({ shards }: { readonly shards: readonly number[] }) {
  if (shards.length === 0) return null;
  return (
    <p class="warn" role="status">
      {shards.length === 1 ? "Shard" : "Shards"} {shards.join(", ")} did not answer: these figures
      do not include {shards.length === 1 ? "it" : "them"}.
    </p>
  );
}

interface Row extends LimitRates {
  /** Null: all limiters that the shards don't tell apart. */
  readonly name: string | null;
}

function LimitList({
  figures: { limits, others },
  onOpen,
}: {
  readonly figures: LimitFigures;
  readonly onOpen: (name: string) => void;
}) {
  const [filter, setFilter] = useTextParameter("filter");
  const all: readonly Row[] = [...limits, ...(others === null ? [] : [{ ...others, name: null }])];
  const rows = all.filter(({ name }) => (name ?? OTHERS).includes(filter));
  return (
    <Card title="Limiters" aside="per second, over the last minute">
      <Search
        label="Part of a name"
        placeholder="Part of a name"
        value={filter}
        onText={(text) => setFilter(text.trim())}
      />
      {rows.length === 0 ? (
        <Empty title="No limiter matches">Names are case-sensitive.</Empty>
      ) : (
        <Table
          label="Limiters"
          rows={rows}
          keyOf={({ name }) => name ?? ""}
          opens
          columns={columnsOf(onOpen)}
        />
      )}
    </Card>
  );
}

const OTHERS = "others";

const perSecondOf = (head: string, outcome: keyof LimitRates): Column<Row> => ({
  head,
  isNumber: true,
  sortBy: ({ [outcome]: { perMinute } }) => perMinute,
  cell: ({ [outcome]: { perMinute } }) => formatRate(perMinute / MINUTE_S),
});

const columnsOf = (onOpen: (name: string) => void): readonly Column<Row>[] => [
  {
    head: "Limiter",
    isTitle: true,
    sortBy: ({ name }) => name ?? "",
    cell: ({ name }) =>
      name === null ? (
        <span class="hint">{OTHERS}</span>
      ) : (
        <Opener text={name} onOpen={() => onOpen(name)} />
      ),
  },
  perSecondOf("Granted", "allowed"),
  perSecondOf("Refused", "refused"),
  {
    head: "Refused share",
    sortBy: (row) => refusedShare(row) ?? -1,
    cell: (row) => <Share row={row} />,
  },
  {
    head: "Local",
    isNumber: true,
    sortBy: (row) => localShare(row) ?? -1,
    cell: (row) => formatShare(localShare(row) ?? 0),
  },
  perSecondOf("Errors", "errors"),
];

function Share({ row }: { readonly row: Row }) {
  const share = refusedShare(row);
  if (share === null) return <span class="hint">idle</span>;
  return (
    <Bar
      label={`Refused share of ${row.name ?? OTHERS}`}
      share={share}
      text={formatShare(share)}
      tone={share >= BAD_SHARE ? "bad" : "accent"}
    />
  );
}
