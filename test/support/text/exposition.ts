/**
 * A strict reader of Prometheus text exposition 0.0.4, written from the format's text: it refuses what the
 * format forbids, and what a scraper lets pass but a server should not say.
 */

export interface ParsedSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ParsedMetric {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly ParsedSample[];
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const TYPES = ["counter", "gauge", "histogram", "summary", "untyped"];
const HELP_LINE = new RegExp(`^# HELP (${NAME}) (.*)$`, "s");
const TYPE_LINE = new RegExp(`^# TYPE (${NAME}) (\\S+)$`);
const SAMPLE_LINE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (\\S+)$`, "s");
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^\\"]|\\[\\"n])*)"(?:,|$)/;
const VALUE = /^(?:[+-]Inf|NaN|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$/;

/** @throws Error that names the line */
export function parseExposition(text: string): Map<string, ParsedMetric> {
  const metrics = new Map<string, { type: string; help: string; samples: ParsedSample[] }>();
  if (text === "") return metrics;
  if (!text.endsWith("\n")) throw new Error("the last line must end with a line feed");
  const series = new Set<string>();
  let present: string | null = null;
  let help: { name: string; text: string } | null = null;
  for (const line of text.slice(0, -1).split("\n")) {
    const fail = (why: string): never => {
      throw new Error(`${why}: ${line}`);
    };
    const [, helpName, helpText] = HELP_LINE.exec(line) ?? [];
    if (helpName !== undefined) {
      if (metrics.has(helpName)) fail("a second HELP, or one behind samples");
      if (/\\(?![\\n])/.test(helpText!.replaceAll("\\\\", ""))) fail("an escape that is none");
      help = { name: helpName, text: unescaped(helpText!) };
      continue;
    }
    const [, typeName, type] = TYPE_LINE.exec(line) ?? [];
    if (typeName !== undefined) {
      if (!TYPES.includes(type!)) fail("a type that is none");
      if (help?.name !== typeName) fail("a TYPE without its HELP before it");
      if (metrics.has(typeName)) fail("a second TYPE");
      if ((type === "counter") !== typeName.endsWith("_total")) fail("_total is for counters");
      metrics.set(typeName, { type: type!, help: help!.text, samples: [] });
      present = typeName;
      continue;
    }
    if (line.startsWith("#") || line === "") fail("a line that says nothing");
    const [, name, labelText, value] = SAMPLE_LINE.exec(line) ?? [];
    if (name === undefined) return fail("no sample");
    if (name !== present) fail("a sample outside of its metric");
    if (!VALUE.test(value!)) fail("no number");
    const labels = labelsOf(labelText ?? "", fail);
    const id = `${name} ${labelsId(labels)}`;
    if (series.has(id)) fail("a series that came before");
    series.add(id);
    metrics.get(name)!.samples.push({ labels, value: numberOf(value!) });
  }
  for (const [name, { samples }] of metrics) {
    if (samples.length === 0) throw new Error(`${name} has no samples`);
  }
  return metrics;
}

/** The same for the same labels, in whatever order. */
export function labelsId(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function labelsOf(text: string, fail: (why: string) => never): Record<string, string> {
  const labels: Record<string, string> = {};
  for (let rest = text; rest !== "";) {
    const [whole, name, value] = LABEL.exec(rest) ?? [];
    if (whole === undefined) return fail("no label");
    if (name!.startsWith("__")) fail("a label that is Prometheus's own");
    if (Object.hasOwn(labels, name!)) fail("a label twice");
    labels[name!] = unescaped(value!);
    rest = rest.slice(whole.length);
  }
  return labels;
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, character: string) => (character === "n" ? "\n" : character));
}

function numberOf(text: string): number {
  return Number(text.replace(/Inf$/, "Infinity"));
}
