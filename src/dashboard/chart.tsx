/**
 * The chart of requests per second by type.
 *
 * uPlot draws on a canvas, which screen readers and tests cannot read: the legend beside it is HTML, with the figures of
 * the latest second or of the one under the pointer.
 */
import { useRef, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import uPlot from "uplot";
import { formatRate, formatTime } from "./format.ts";
import { LINES_MAX, SAMPLES_MAX, type Feed, type Sample } from "./overview-feed.ts";
import { themeStore } from "./theme.ts";
import { useStore } from "./store.ts";

const HEIGHT_PX = 220;
/** Five types, and all others. */
const LINES = LINES_MAX + 1;

export function RequestsChart({ samples, names }: Pick<Feed, "samples" | "names">) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const theme = useStore(themeStore);

  useEffect(() => {
    const element = host.current!;
    const made = new uPlot(
      optionsOf(element, (index) => setPointed(index)),
      dataOf(samples),
      element,
    );
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
    plot.current?.setData(dataOf(samples));
  }, [samples]);

  const at = pointed === null ? samples.at(-1) : samples[pointed - (SAMPLES_MAX - samples.length)];
  const shown = [
    ...names,
    ...Array.from({ length: LINES_MAX - names.length }, () => null),
    "other",
  ];
  return (
    <div class="chart">
      <div
        ref={host}
        class="plot"
        role="img"
        aria-label="Requests per second by type, of the last three minutes"
      />
      <ul class="legend" aria-label={at === undefined ? "Types" : `At ${formatTime(at.atMs)}`}>
        {shown.map((name, i) =>
          name === null ? null : (
            <li key={name}>
              <span class="swatch" style={{ background: `var(--line-${i})` }} />
              <span class="legend-name">{name}</span>
              <span class="figure">{at?.values == null ? "–" : formatRate(at.values[i]!)}</span>
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

/** Columns of the chart: the last three minutes. Seconds before the first sample are empty. */
function dataOf(samples: readonly Sample[]): uPlot.AlignedData {
  const lastMs = samples.at(-1)?.atMs ?? Date.now();
  const missing = SAMPLES_MAX - samples.length;
  const firstMs = samples[0]?.atMs ?? lastMs;
  const xs = Array.from({ length: SAMPLES_MAX }, (_, i) =>
    i < missing ? (firstMs - (missing - i) * 1000) / 1000 : samples[i - missing]!.atMs / 1000,
  );
  const lines = Array.from({ length: LINES }, (_, line) =>
    Array.from({ length: SAMPLES_MAX }, (_, i) =>
      i < missing ? null : (samples[i - missing]!.values?.[line] ?? null),
    ),
  );
  return [xs, ...lines];
}

function optionsOf(host: HTMLElement, onPoint: (index: number | null) => void): uPlot.Options {
  const colour = (name: string): string => colourOf(host, name);
  const muted = colour("--muted");
  const axis = {
    stroke: muted,
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
    // At least 4: the axis of an empty chart is at the bottom, and a low rate looks low.
    scales: { y: { range: (_, __, max) => [0, Math.max(4, max * 1.15)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 30,
        // Seconds between two labels; the next ones of uPlot would leave a narrow chart without any.
        incrs: [15, 30, 60, 90],
        space: 60,
        values: (_, seconds) => seconds.map((s) => formatTime(s * 1000)),
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
      ...Array.from({ length: LINES }, (_, i) => ({
        stroke: colour(`--line-${i}`),
        width: 2,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
  };
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
