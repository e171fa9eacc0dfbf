/**
 * Shards: the circle of hashes and the range that each shard owns of it, how full it is, and which splits are under way.
 *
 * An answer asks all shards of the namespace, unless there are many, and wakes those that sleep, so the screen asks only when it
 * is opened or refreshed.
 */
import type { ShardRow, Shards } from "../../wire/shards.ts";
import {
  Allowed,
  Bar,
  Card,
  Loading,
  Refresh,
  ScreenHead,
  Table,
  type Column,
} from "../controls/index.ts";
import { formatBytes, formatCount, formatRate, formatShare, shareOf } from "../format.ts";
import { useListed } from "../hooks.ts";
import { Ring } from "../ring.tsx";
import { describeRing } from "../ring.ts";
import { jsonOf } from "../server.ts";
import { lacksScope, type Session } from "../session.ts";
import { CIRCLE } from "../../wire/range.ts";

const LEAD = "Which part of the keys each shard owns";
/** Above that a shard's memory is shown as a warning. */
const FULL_SHARE = 0.9;

export function ShardsScreen({ session }: { readonly session: Session }) {
  if (!lacksScope(session, "admin")) return <ShardList session={session} />;
  return (
    <>
      <ScreenHead title="Shards" lead={LEAD} />
      <Allowed session={session} scope="admin" />
    </>
  );
}

function ShardList({ session }: { readonly session: Session }) {
  const shards = useListed(
    async (signal) => await jsonOf<Shards>(session, "/v1/shards", { signal }),
    [session],
  );
  return (
    <>
      <ScreenHead title="Shards" lead={LEAD}>
        <Refresh of={shards} />
      </ScreenHead>
      <Card
        title="Circle of hashes"
        aside={shards.value === null ? null : describeRing(shards.value.shards)}
      >
        <Loading of={shards} rows={6}>
          {({ shards: rows }) => (
            <div class="ring-beside">
              <Ring shards={rows} />
              <Legend />
            </div>
          )}
        </Loading>
      </Card>
      <Card title="Ranges" aside="in the order of the circle">
        <Loading of={shards} rows={4}>
          {({ shards: rows }) => (
            <Table
              label="Ranges"
              rows={rows}
              keyOf={({ from }) => String(from)}
              columns={COLUMNS}
            />
          )}
        </Loading>
      </Card>
    </>
  );
}

/** What the colours mean. The table below says the same of each shard in text. */
function Legend() {
  return (
    <ul class="ring-legend">
      <li>
        <span class="swatch ring-filled" />
        Memory in use; a shard splits before it is full
      </li>
      <li>
        <span class="swatch ring-leaving" />
        Splitting: this part goes to a new shard
      </li>
      <li>
        <span class="swatch ring-hot" />
        Hot: for half a minute, more calls than a shard should have
      </li>
    </ul>
  );
}

const hexOf = (hash: number): string => hash.toString(16).padStart(8, "0");

function stateOf({ split, splitProblem, isHot }: ShardRow): string {
  const states = [
    ...(split === null ? [] : [split.isGiven ? "has split" : `splits at ${hexOf(split.at)}`]),
    ...(isHot ? ["hot"] : []),
    ...(splitProblem ? [`can't split: ${splitProblem}`] : []),
  ];
  return states.length === 0 ? "–" : states.join(", ");
}

const COLUMNS: readonly Column<ShardRow>[] = [
  { head: "Shard", cell: ({ shard }) => shard, isTitle: true },
  {
    head: "Range",
    cell: ({ from, to }) => (
      <>
        <code>
          {hexOf(from)} to {hexOf(to - 1)}
        </code>{" "}
        <span class="hint">{formatShare((to - from) / CIRCLE)}</span>
      </>
    ),
  },
  {
    head: "Memory",
    cell: ({ shard, bytes, bytesMax }) => (
      <Bar
        label={`Memory of shard ${shard}`}
        share={shareOf(bytes, bytesMax)}
        text={`${formatBytes(bytes)} of ${formatBytes(bytesMax)}`}
        tone={bytes > bytesMax * FULL_SHARE ? "bad" : "accent"}
      />
    ),
  },
  { head: "Records", isNumber: true, cell: ({ records }) => formatCount(records) },
  {
    head: "Calls per second",
    isNumber: true,
    cell: ({ callsPerSecond }) => formatRate(callsPerSecond),
  },
  { head: "State", cell: stateOf },
];
