/** How `throttr-edge deploy` starts wrangler: which one, and on which Node. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { runWrangler, wranglerCommand } from "../../src/cli/deploy/wrangler.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "throttr-wrangler-")));
let folders = 0;

afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A project with packages, by their versions; a wrangler asks for a version of Node. */
function projectWith(packages: Readonly<Record<string, object>>): string {
  const folder = join(root, String(++folders));
  for (const [name, manifest] of Object.entries(packages)) {
    const path = join(folder, "node_modules", name);
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, "package.json"), JSON.stringify(manifest));
  }
  return folder;
}

const WRANGLER = { version: "4.155.0", engines: { node: ">=22.0.0" } };
const node = (version: string) => ({ path: "/usr/bin/node", version });

describe("the wrangler of a deployment", () => {
  it("a program that does not start is named", async () => {
    // A package `node` whose installation was cut short has no program.
    const folder = projectWith({ wrangler: WRANGLER, node: { version: "24.21.0" } });
    const cwd = vi.spyOn(process, "cwd").mockReturnValue(folder);
    await expect(runWrangler(["--version"], new AbortController().signal)).rejects.toMatchObject({
      code: "wrangler_unusable",
      message: expect.stringMatching(
        /node_modules\/node\/bin\/node does not start: .*ENOENT$/,
      ) as string,
    });
    cwd.mockRestore();
  });

  it("a signal ends wrangler, and none is started after it", async () => {
    const folder = projectWith({ wrangler: WRANGLER });
    const started = join(folder, "started");
    mkdirSync(join(folder, "node_modules/wrangler/bin"));
    writeFileSync(
      join(folder, "node_modules/wrangler/bin/wrangler.js"),
      `require("node:fs").appendFileSync(${JSON.stringify(started)}, "once ");
       setInterval(() => {}, 1000);`,
    );
    const cwd = vi.spyOn(process, "cwd").mockReturnValue(folder);
    const ending = new AbortController();
    const running = runWrangler(["secret", "list"], ending.signal, "ignore");
    await vi.waitFor(() => expect(existsSync(started)).toBe(true), 10_000);
    ending.abort("SIGTERM");
    await expect(running).rejects.toMatchObject({ code: "aborted" });
    const next = runWrangler(["deploy"], ending.signal, "ignore");
    await expect(next).rejects.toMatchObject({ code: "aborted" });
    expect(readFileSync(started, "utf8")).toBe("once ");
    cwd.mockRestore();
  });

  it("wrangler starts on the Node that runs the command line", () => {
    const folder = projectWith({ wrangler: WRANGLER });
    expect(wranglerCommand(folder, node("22.12.0"))).toEqual({
      command: "/usr/bin/node",
      before: [join(folder, "node_modules/wrangler/bin/wrangler.js")],
    });
  });

  it("wrangler starts on the package node of the project, whatever runs the command line", () => {
    const folder = projectWith({ wrangler: WRANGLER, node: { version: "24.21.0" } });
    expect(wranglerCommand(folder, node("20.20.2")).command).toBe(
      join(folder, "node_modules/node/bin/node"),
    );
  });

  it.each<[string, Readonly<Record<string, object>>]>([
    ["a project without packages", {}],
    ["a project with wrangler", { wrangler: WRANGLER }],
    ["a project with an old node", { wrangler: WRANGLER, node: { version: "20.1.0" } }],
  ])("in %s an old Node is refused with the way out", (_, packages) => {
    expect(() => wranglerCommand(projectWith(packages), node("20.20.2"))).toThrow(
      expect.objectContaining({
        code: "node_old",
        message: expect.stringMatching(
          /^wrangler needs Node 22\.12 .* `npm install --save-dev node@24 wrangler@4\.155\.0`$/,
        ) as string,
      }) as Error,
    );
  });

  it("an older wrangler of a project starts on the Node that it asks for", () => {
    const folder = projectWith({ wrangler: { version: "4.20.0", engines: { node: ">=18.0.0" } } });
    expect(wranglerCommand(folder, node("20.20.2")).command).toBe("/usr/bin/node");
  });
});
