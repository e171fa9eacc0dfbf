/** The packaged server: the command line and the Worker as the package has them, each one file. */
import { setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import { UNIQUE_KEYS } from "../../src/cli/serve/configuration.ts";
import { isRunning, SelfHosted } from "../../test/support/process/self-hosted.ts";
import { ROOT } from "../server.ts";
import { runBuild, untilReady, type Launch, type Launcher, type Running } from "./launcher.ts";

/** What the dialects of the ports of `wrangler.toml` are, as far as the crash test speaks them. */
const SPOKEN: Readonly<Record<number, string>> = {
  9000: "7.3",
  9001: "7.3/uint8",
  9002: "7.3/uint16",
  9004: "7.3/uint32",
  9008: "7.3/uint64",
};
const GONE_INTERVAL_MS = 5;

export class ServeLauncher implements Launcher {
  readonly shardsFolder: string;
  readonly #launch: Launch;

  constructor(launch: Launch) {
    this.#launch = launch;
    this.shardsFolder = join(launch.stateFolder, "objects", UNIQUE_KEYS.Shard!);
  }

  build(): void {
    const { environment } = this.#launch;
    const tsdown = join(ROOT, "node_modules/tsdown/dist/run.mjs");
    const parts = ["--filter=cli", "--filter=worker"];
    runBuild(
      [tsdown, "--log-level=warn", ...parts, `--out-dir=${this.#packageFolder}`],
      environment,
    );
  }

  start(): Running {
    const { httpPort, tcpPorts, stateFolder, variables, environment } = this.#launch;
    const tcp = Object.entries(tcpPorts).map(([port, own]) => `${own}=${SPOKEN[Number(port)]}`);
    const flags = [
      `--http=127.0.0.1:${httpPort}`,
      `--tcp=${tcp.join(", ")}`,
      `--data=${stateFolder}`,
      "--access=open",
      ...Object.entries(variables).map(([name, value]) => `--var=${name}=${value}`),
    ];
    const program = [process.execPath, join(this.#packageFolder, "cli.js"), "serve"];
    const server = SelfHosted.start(flags, environment, program);
    return {
      ready: async () => {
        // Only the event names workerd, which is to be killed, too.
        await Promise.all([server.ready(), untilReady(this.#launch, server.exited)]);
      },
      killNow: () => void server.kill(),
      kill: async () => {
        await server.kill();
        const pid = server.events.findLast(({ event }) => event === "ready")?.workerdPid;
        if (pid !== undefined) await untilGone(pid);
      },
      log: () => server.errors + server.events.map((event) => JSON.stringify(event)).join("\n"),
      process: server.process,
    };
  }

  get #packageFolder(): string {
    return join(this.#launch.buildFolder, "package");
  }
}

/** A killed workerd may still be busy with a file, and must have ended before the files are read. */
async function untilGone(pid: number): Promise<void> {
  while (isRunning(pid)) await sleep(GONE_INTERVAL_MS);
}
