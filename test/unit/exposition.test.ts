/** Prometheus text exposition: what is written reads back the same, whatever stands in labels. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { expositionOf, type Metric } from "../../src/worker/metrics/exposition.ts";
import { labelsId, parseExposition } from "../support/text/exposition.ts";

const seed = inject("seed");

const labelName = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9_]{0,8}$/);
const anyText = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: fc.constantFrom("\\", '"', "\n", "n", "{", "}", ",", "=", " ", "#", "é") }),
);
const number = fc.oneof(fc.double(), fc.nat(), fc.constantFrom(Infinity, -Infinity, NaN, 0));

const metric = fc
  .record({
    name: fc.stringMatching(/^[a-z:][a-z0-9_:]{0,12}x$/),
    type: fc.constantFrom("counter" as const, "gauge" as const),
    help: anyText,
    samples: fc.uniqueArray(
      fc.record({ labels: fc.dictionary(labelName, anyText, { maxKeys: 4 }), value: number }),
      { selector: ({ labels }) => labelsId(labels), maxLength: 5 },
    ),
  })
  .map(({ name, type, ...rest }): Metric => {
    return { name: type === "counter" ? `${name}_total` : name, type, ...rest };
  });
const metrics = fc.uniqueArray(metric, { selector: ({ name }) => name, maxLength: 5 });

describe("the exposition", () => {
  it("metrics are read as they were written", () => {
    fc.assert(
      fc.property(metrics, (written) => {
        const read = [...parseExposition(expositionOf(written))].map(
          ([name, { type, help, samples }]) => ({ name, type, help, samples }),
        );
        const labelled = written
          .filter(({ samples }) => samples.length > 0)
          .map(({ name, type, help, samples }) => ({
            name,
            type,
            help,
            // Zero has no sign in a figure.
            samples: samples.map(({ labels, value }) => ({
              labels: { ...labels },
              value: value + 0,
            })),
          }));
        expect(read).toEqual(labelled);
      }),
      { seed },
    );
  });

  it("the exposition is the text that its specification shows", () => {
    const text = expositionOf([
      {
        name: "http_requests_total",
        type: "counter",
        help: "The total number of HTTP requests.",
        samples: [
          { labels: { method: "post", code: "200" }, value: 1027 },
          { labels: { method: "post", code: "400" }, value: 3 },
        ],
      },
      {
        name: "msdos_file_access_time_seconds",
        type: "gauge",
        help: "Escapes: \\ and\na line.",
        samples: [
          {
            labels: { path: "C:\\DIR\\FILE.TXT", error: 'Cannot find file:\n"FILE.TXT"' },
            value: 1.458255915e9,
          },
          { labels: {}, value: Infinity },
          { labels: { a: "" }, value: -Infinity },
          { labels: { b: "" }, value: NaN },
        ],
      },
      { name: "none", type: "gauge", help: "Has no samples.", samples: [] },
    ]);
    expect(text).toBe(
      [
        "# HELP http_requests_total The total number of HTTP requests.",
        "# TYPE http_requests_total counter",
        'http_requests_total{method="post",code="200"} 1027',
        'http_requests_total{method="post",code="400"} 3',
        "# HELP msdos_file_access_time_seconds Escapes: \\\\ and\\na line.",
        "# TYPE msdos_file_access_time_seconds gauge",
        'msdos_file_access_time_seconds{path="C:\\\\DIR\\\\FILE.TXT",error="Cannot find file:\\n\\"FILE.TXT\\""} 1458255915',
        "msdos_file_access_time_seconds +Inf",
        'msdos_file_access_time_seconds{a=""} -Inf',
        'msdos_file_access_time_seconds{b=""} NaN',
        "",
      ].join("\n"),
    );
  });

  it.each([
    ["a_total 1", "the last line"],
    ["# TYPE a gauge\na 1\n", "without its HELP"],
    ["# HELP a b\n# TYPE a gauge\n", "no samples"],
    ["# HELP a b\n# TYPE a gauge\na 1\na 2\n", "came before"],
    ['# HELP a b\n# TYPE a gauge\na{b="1",c="2"} 1\na{c="2",b="1"} 2\n', "came before"],
    ["# HELP a b\n# TYPE a gauge\nb 1\n", "outside of its metric"],
    ["# HELP a b\n# TYPE a counter\na 1\n", "_total"],
    ["# HELP a b\n# TYPE a gauge\na one\n", "no number"],
    ["# HELP a b\n# TYPE a gauge\na Infinity\n", "no number"],
    ['# HELP a b\n# TYPE a gauge\na{b="\\x"} 1\n', "no label"],
    ['# HELP a b\n# TYPE a gauge\na{b="1"c="2"} 1\n', "no label"],
    ['# HELP a b\n# TYPE a gauge\na{b="1",b="2"} 1\n', "a label twice"],
    ["# HELP a \\x\n# TYPE a gauge\na 1\n", "an escape"],
  ])("invalid metrics are refused: %j", (text, why) => {
    expect(() => parseExposition(text)).toThrow(why);
  });
});
