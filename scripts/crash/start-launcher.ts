/** `wrangler dev` with the project's configuration and other ports, as `npm start` runs it. */
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { configWithPorts, ROOT, startServer } from "../server.ts";
import { runBuild, untilReady, type Launch, type Launcher, type Running } from "./launcher.ts";

/** wrangler reloads the server, and so closes all connections, when a file that it watches seems to have changed. */
const UNWATCHED = { CHOKIDAR_USEPOLLING: "true", CHOKIDAR_INTERVAL: String(86_400_000) };

export class StartLauncher implements Launcher {
  readonly shardsFolder: string;
  readonly #launch: Launch;

  constructor(launch: Launch) {
    this.#launch = launch;
    this.shardsFolder = join(launch.stateFolder, "v3/do/throttr-edge-Shard");
  }

  build(): void {
    const { buildFolder, environment } = this.#launch;
    const config = this.#writeConfig("build.toml", join(ROOT, "src/worker/index.ts"));
    const wrangler = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
    const worker = join(buildFolder, "worker");
    const args = ["deploy", "--dry-run", `--outdir=${worker}`, `--config=${config}`];
    runBuild([wrangler, ...args], environment);
    this.#writeConfig("wrangler.toml", join(worker, "index.js"), "no_bundle = true\n");
  }

  start(): Running {
    const { buildFolder, httpPort, stateFolder, variables, environment } = this.#launch;
    const logPath = join(buildFolder, "server.log");
    const log = openSync(logPath, "w");
    const server = startServer({
      config: join(buildFolder, "wrangler.toml"),
      port: httpPort,
      persistTo: stateFolder,
      variables: { ACCESS: "open", ...variables },
      environment: { ...environment, ...UNWATCHED },
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    const ended = once(server.process, "exit");
    return {
      ready: async () => await untilReady(this.#launch, ended),
      killNow: () => server.killNow(),
      kill: async () => await server.kill(),
      log: () => readFileSync(logPath, "utf8"),
      process: server.process,
    };
  }

  #writeConfig(name: string, main: string, head = ""): string {
    const path = join(this.#launch.buildFolder, name);
    writeFileSync(path, head + configWithPorts(this.#launch.tcpPorts, main));
    return path;
  }
}
