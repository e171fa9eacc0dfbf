/** The files for Prometheus and Grafana in docs/grafana: what they name is what /metrics has. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";

const FOLDER = "docs/grafana";
const textOf = (file: string): string => readFileSync(join(FOLDER, file), "utf8");

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets?: readonly { readonly expr: string }[];
}

const dashboard = JSON.parse(textOf("throttr.json")) as { readonly panels: readonly Panel[] };
const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

const namesIn = (text: string): string[] =>
  [...new Set(text.match(/\bthrottr_[a-z_]+/g))].toSorted();

/** Metrics that the server has: the file that makes them names no others. */
const served = namesIn(readFileSync("src/worker/metrics/metrics.ts", "utf8"));

const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;
const folder = mkdtempSync(join(tmpdir(), "grafana-"));
afterAll(() => rmSync(folder, { recursive: true }));

function promtool(...args: string[]): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8" });
  return { status, output: stdout + stderr };
}

describe("files for Prometheus and Grafana", () => {
  it.each(["throttr.json", "alerts.yml", "alerts.test.yml"])(
    "all metrics that docs/grafana/%s names are in /metrics",
    (file) => {
      const names = namesIn(textOf(file));
      expect(names).toContain("throttr_limit_decisions_total");
      expect(served).toEqual(expect.arrayContaining(names));
    },
  );

  it("the metrics of limits are in the dashboard and in the alerts", () => {
    const ofLimits = served.filter((name) => name.startsWith("throttr_limit_"));
    expect(ofLimits).not.toEqual([]);
    expect(namesIn(expressions.join("\n"))).toEqual(expect.arrayContaining(ofLimits));
    // How many decisions are local is no reason to wake anybody.
    const alarming = ofLimits.filter((name) => name !== "throttr_limit_local_total");
    expect(namesIn(textOf("alerts.yml"))).toEqual(expect.arrayContaining(alarming));
  });

  it("docs/metrics.md has all metrics of a namespace", () => {
    const documented = namesIn(readFileSync("docs/metrics.md", "utf8"));
    expect(documented).toEqual(expect.arrayContaining(served));
  });

  it("every alert has a test", () => {
    const alerts = [...textOf("alerts.yml").matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);
    const tested = new Set(
      [...textOf("alerts.test.yml").matchAll(/- alertname: (\w+)/g)].map(([, name]) => name),
    );
    expect(alerts.filter((name) => !tested.has(name))).toEqual([]);
  });

  it("no two panels of the dashboard lie on each other", () => {
    const places = dashboard.panels.map(({ title, gridPos }) => ({ title, ...gridPos }));
    for (const [i, a] of places.entries()) {
      expect(a.x + a.w).toBeLessThanOrEqual(24);
      const above = places
        .slice(0, i)
        .filter((b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h);
      expect(above.map(({ title }) => `${title} below ${a.title}`)).toEqual([]);
    }
  });
});

describe.skipIf(!hasPromtool)(
  `promtool${hasPromtool ? "" : " (skipped: prometheus is not installed)"}`,
  () => {
    it("promtool accepts the alert rules", () => {
      const { status, output } = promtool("check", "rules", join(FOLDER, "alerts.yml"));
      expect(output).toContain("SUCCESS");
      expect(status).toBe(0);
    });

    it("the tests of the alert rules pass in promtool", () => {
      const { status, output } = promtool("test", "rules", join(FOLDER, "alerts.test.yml"));
      expect(output).toContain("SUCCESS");
      expect(status).toBe(0);
    });

    it("promtool accepts every expression of the dashboard", () => {
      const rules = expressions.map((expr, i) => ({
        record: `panel:${i}`,
        expr: expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$\w+/g, ".*"),
      }));
      // JSON is YAML, too.
      const file = join(folder, "dashboard.yml");
      writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
      const { status, output } = promtool("check", "rules", file);
      expect(output).toContain(`SUCCESS: ${expressions.length} rules found`);
      expect(status).toBe(0);
    });
  },
);
