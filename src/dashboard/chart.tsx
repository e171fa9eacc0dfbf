/**
 * A chart of figures per second, over the last hour or the last minutes.
 *
 * uPlot draws on a canvas, which screen readers and tests cannot read: the legend beside it is HTML, with the figures of
 * the latest moment or of the one under the pointer.
 */
import { useRef, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import uPlot from "uplot";
import { Card, Switch } from "./controls/index.ts";
import { formatMinute, formatRate, formatTime } from "./format.ts";
import type { Point } from "./last-hour.ts";
import { useTextParameter } from "./place.ts";
import { themeStore } from "./theme.ts";
import { useStore } from "./store.ts";

const HEIGHT_PX = 220;
const HOUR_MS = 3_600_000;
const LIVE_MS = 180_000;
/** Points of the last hour are joined that are four minutes apart or less. */
const JOINED_SHARE = 0.07;
/** So many names are one line of the legend where there is room. */
const FEW_LINES = 3;
/** Seconds between two labels of the time axis; the next ones of uPlot would leave a narrow chart without any. */
const LABELS_S = [15, 30, 60, 90, 300, 600, 900, 1200, 1800];

/** Lines over the same moments. */
export interface Lines {
  /** One for each value of a point; null: this line is not used yet. */
  readonly names: readonly (string | null)[];
  /** Variables of the style sheet, as many. */
  readonly colours: readonly string[];
  readonly points: readonly Point[];
}

/** The last hour in minutes, and the last three minutes as they come: the address says which of them is shown. */
export function RangedChart({
  title,
  label,
  hour,
  live,
}: {
  readonly title: string;
  /** For screen readers, without the range. */
  readonly label: string;
  /** Null: the server keeps no minutes, or they are not there yet. */
  readonly hour: Lines | null;
  readonly live: Lines;
}) {
  const [range, setRange] = useTextParameter("range");
  const isHour = hour !== null && range !== "live";
  const isMany = Math.max(hour?.names.length ?? 0, live.names.length) > FEW_LINES;
  return (
    <Card
      title={title}
      aside={
        hour === null ? null : (
          <Switch
            label="Range"
            value={isHour ? "hour" : "live"}
            options={[
              ["hour", "Last hour"],
              ["live", "Last 3 minutes"],
            ]}
            onChoice={(name) => setRange(name === "live" ? name : "")}
          />
        )
      }
    >
      <Chart
        key={isHour ? "hour" : "live"}
        label={`${label}, ${isHour ? "of the last hour by the minute" : "of the last three minutes"}`}
        lines={isHour ? hour : live}
        spanMs={isHour ? HOUR_MS : LIVE_MS}
        isFilled={isHour}
        isMany={isMany}
      />
    </Card>
  );
}

function Chart({
  label,
  lines: { names, colours, points },
  spanMs,
  isFilled,
  isMany,
}: {
  readonly label: string;
  readonly lines: Lines;
  readonly spanMs: number;
  readonly isFilled: boolean;
  /** The legend keeps room for many names, so that nothing moves when they come. */
  readonly isMany: boolean;
}) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const theme = useStore(themeStore);

  useEffect(() => {
    const element = host.current!;
    const options = optionsOf(element, { colours, spanMs, isFilled, onPoint: setPointed });
    const made = new uPlot(options, dataOf(points, names.length), element);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: HEIGHT_PX }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme]);

  useEffect(() => {
    plot.current?.setData(dataOf(points, names.length));
  }, [points]);

  const at =
    (pointed === null ? undefined : points[pointed]) ??
    points.findLast(({ values }) => values !== null);
  return (
    <div class="chart">
      <div ref={host} class="plot" role="img" aria-label={label} />
      <ul
        class={isMany ? "legend many" : "legend"}
        aria-label={at === undefined ? "Lines" : `At ${formatTime(at.atMs)}`}
      >
        {names.map((name, i) =>
          name === null ? null : (
            <li key={name}>
              <span class="swatch" style={{ background: `var(${colours[i]})` }} />
              <span class="legend-name">{name}</span>
              <span class="figure">{at?.values == null ? "–" : formatRate(at.values[i]!)}</span>
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

/** Columns of the chart. */
const dataOf = (points: readonly Point[], lines: number): uPlot.AlignedData => [
  points.map(({ atMs }) => atMs / 1000),
  ...Array.from({ length: lines }, (_, line) => points.map(({ values }) => values?.[line] ?? null)),
];

interface Look {
  readonly colours: readonly string[];
  readonly spanMs: number;
  readonly isFilled: boolean;
  readonly onPoint: (index: number | null) => void;
}

function optionsOf(host: HTMLElement, { colours, spanMs, isFilled, onPoint }: Look): uPlot.Options {
  const colour = (name: string): string => colourOf(host, name);
  const format = spanMs === HOUR_MS ? formatMinute : formatTime;
  const axis = {
    stroke: colour("--muted"),
    font: "12px system-ui, sans-serif",
    ticks: { show: false },
    grid: { stroke: colour("--line"), width: 1 },
  };
  return {
    width: host.clientWidth,
    height: HEIGHT_PX,
    // The last label of the time axis stands half beside it.
    padding: [8, 26, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      // The whole range, also while only a part of it is known.
      x: { range: (_, __, max) => rangeUpTo(max, spanMs) },
      // At least 4: the axis of an empty chart is at the bottom, and a low rate looks low.
      y: { range: (_, __, max) => [0, Math.max(4, (max ?? 0) * 1.15)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 30,
        incrs: LABELS_S,
        space: 60,
        values: (_, seconds) => seconds.map((s) => format(s * 1000)),
      },
      {
        ...axis,
        size: 44,
        values: (_, rates) =>
          rates.map((rate) => (rate < 10 ? String(rate) : formatRate(rate).replace(/\.0$/, ""))),
      },
    ],
    series: [
      {},
      ...colours.map((name) => ({
        stroke: colour(name),
        ...(isFilled ? { fill: withAlpha(colour(name)) } : {}),
        width: 2,
        points: { show: false },
        ...(isFilled ? { gaps: longGaps } : {}),
      })),
    ],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
  };
}

/** Between the minutes of the last hour and the live points, one or two minutes are not known yet: a line joins such short gaps. */
function longGaps(
  { bbox }: uPlot,
  _series: number,
  _first: number,
  _last: number,
  gaps: uPlot.Series.Gaps,
): uPlot.Series.Gaps {
  return gaps.filter(([from, to]) => to - from > bbox.width * JOINED_SHARE);
}

/** Seconds; uPlot gives null where there is no point yet. */
function rangeUpTo(max: number | null, spanMs: number): [from: number, to: number] {
  const to = max ?? Date.now() / 1000;
  return [to - spanMs / 1000, to];
}

/** A colour of the style sheet, as a canvas needs it: resolved for this theme. */
function colourOf(host: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  host.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** `rgb(1, 2, 3)` with a tenth of its strength. */
const withAlpha = (colour: string): string => colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)");
