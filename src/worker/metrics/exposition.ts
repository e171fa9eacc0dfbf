/**
 * Prometheus text exposition, version 0.0.4.
 *
 * Client libraries keep a registry of counters in a process. A Worker has no such process, only figures that were
 * gathered a moment ago, and the text format itself is a page of code: so it is written here.
 *
 * Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format".
 */

/** Prometheus chooses its parser by it. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export interface Sample {
  /** Values by name; a name is `[a-zA-Z_][a-zA-Z0-9_]*`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric; its samples differ in their labels. */
export interface Metric {
  /** `[a-zA-Z_:][a-zA-Z0-9_:]*`; a counter's ends in `_total`. */
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** Formats metrics; a metric without samples is left out. */
export function expositionOf(metrics: readonly Metric[]): string {
  return metrics
    .filter(({ samples }) => samples.length > 0)
    .map(textOf)
    .join("");
}

/** A metric with all its samples: the format wants them together, below one HELP and one TYPE. */
function textOf({ name, type, help, samples }: Metric): string {
  const lines = samples.map(
    ({ labels, value }) => `${name}${labelsOf(labels)} ${numberOf(value)}\n`,
  );
  return `# HELP ${name} ${escapedHelp(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

/** Labels in braces; nothing without labels. */
function labelsOf(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapedLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

/** Help is one line: the format escapes backslashes and line ends in it. */
const escapedHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** Label values are in quotes, which must be escaped there in addition. */
const escapedLabel = (text: string): string => escapedHelp(text).replaceAll('"', '\\"');

/** Go's names of infinities, which the format uses; NaN is the same in both. */
function numberOf(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}
