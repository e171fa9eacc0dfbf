/**
 * The circle of hashes, drawn: each shard is an arc, which fills from the inside as its memory does.
 *
 * An arc is a circle of which only a stroke of some length is drawn. So one shard that has all of it needs no other way.
 */
import type { ShardRow } from "../wire/shards.ts";
import { arcsOf, describeRing, type Arc, type Stretch } from "./ring.ts";

/** Of the box, in its own units. */
const SIZE = 200;
const INNER = 62;
const THICKNESS = 26;
/** The mark of a hot shard lies outside. */
const MARK_RADIUS = INNER + THICKNESS + 5;
const MARK_THICKNESS = 4;

export function Ring({ shards }: { readonly shards: readonly ShardRow[] }) {
  const text = describeRing(shards);
  return (
    <svg class="ring" viewBox={`0 0 ${SIZE} ${SIZE}`} role="img" aria-label={`Circle: ${text}`}>
      <g transform={`rotate(-90 ${SIZE / 2} ${SIZE / 2})`}>
        {arcsOf(shards).map((arc) => (
          <ShardArc key={arc.shard} arc={arc} />
        ))}
      </g>
      <text x={SIZE / 2} y={SIZE / 2} class="ring-count">
        {shards.length}
      </text>
    </svg>
  );
}

function ShardArc({ arc }: { readonly arc: Arc }) {
  const { filled, isHot, leaving } = arc;
  return (
    <g>
      <Stroke of={arc} kind="range" from={INNER} thickness={THICKNESS} />
      <Stroke of={arc} kind="filled" from={INNER} thickness={THICKNESS * filled} />
      {leaving === null ? null : (
        <Stroke of={leaving} kind="leaving" from={INNER} thickness={THICKNESS} />
      )}
      {isHot ? <Stroke of={arc} kind="hot" from={MARK_RADIUS} thickness={MARK_THICKNESS} /> : null}
    </g>
  );
}

/** A stretch of the circle, as thick as asked, outwards from a radius. */
function Stroke({
  of: { start, length },
  kind,
  from,
  thickness,
}: {
  readonly of: Stretch;
  readonly kind: "range" | "filled" | "leaving" | "hot";
  readonly from: number;
  readonly thickness: number;
}) {
  if (thickness <= 0 || length <= 0) return null;
  return (
    <circle
      class={`ring-${kind}`}
      cx={SIZE / 2}
      cy={SIZE / 2}
      r={from + thickness / 2}
      fill="none"
      stroke-width={thickness}
      pathLength="1"
      stroke-dasharray={`${length} ${2 - length}`}
      stroke-dashoffset={-start}
    />
  );
}
