/** `npm start`: the server on loopback, every door open, data kept in `.wrangler/state`. */
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { askServer, Claim, isHeld } from "../src/cli/serve/claim.ts";
import { tryLock, type Lock } from "../src/cli/serve/lock.ts";
import { orphansOf } from "../src/cli/serve/orphans.ts";
import { holderOfName } from "./dev-registry.ts";
import {
  assertPortsFree,
  configForStart,
  endWithSignals,
  getReady,
  ROOT,
  startServer,
} from "./server.ts";
import { startOptions, USAGE, UsageError, type StartOptions } from "./start-options.ts";
import { unopenedPortsWarning } from "./unopened-ports.ts";

/** The name that service bindings know the server by: `name` of `wrangler.toml`. */
const NAME = "throttr-edge";
const STATE = join(ROOT, ".wrangler");
/** Beside `wrangler.toml`: paths in it, and `.dev.vars`, are found from there. */
const CONFIG = join(ROOT, "wrangler.start.toml");

const options = readOptions();
const { httpPort, tcpPorts } = options;
const openedPorts = Object.values(tcpPorts);
/** Held until the process ends. */
const data = await claimState();
await assertPortsFree([httpPort], `or start with --port ${httpPort + 1}`);
await assertPortsFree(openedPorts, "or start with --tcp-offset 100 or --no-tcp");
const holder = await holderOfName(NAME);
writeFileSync(CONFIG, configForStart(tcpPorts));
const server = startServer({
  config: CONFIG,
  port: httpPort,
  persistTo: join(STATE, "state"),
  registry: "shared",
  // The claim and the folder have the numbers by which `orphansOf` recognizes a process.
  stdio: ["inherit", "inherit", "inherit", "ignore", data.claim.fd, openSync(STATE, "r")],
  isForeground: true,
});
endWithSignals(server);

const isReady = await getReady(server, httpPort, openedPorts);
if (isReady) console.log(bannerOf(options));
const portsWarning = openedPorts.length === 0 ? null : unopenedPortsWarning(...configuration());
if (isReady && portsWarning !== null) console.warn(portsWarning);
if (isReady && holder !== null) {
  console.warn(`Workers that are bound to ${NAME} on this machine reach another server: ${holder}.
When it has ended they reach this one, within a minute and a half.
`);
}

/** The texts of `wrangler.toml` and `.dev.vars`. */
function configuration(): [config: string, localVariables: string] {
  const localVariables = join(ROOT, ".dev.vars");
  return [
    readFileSync(join(ROOT, "wrangler.toml"), "utf8"),
    existsSync(localVariables) ? readFileSync(localVariables, "utf8") : "",
  ];
}

function readOptions(): StartOptions {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    console.log(USAGE);
    process.exit(0);
  }
  try {
    return startOptions(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    return process.exit(2);
  }
}

/** Takes the data for this server and the wrangler that it starts: with other ports a second one could open it. */
async function claimState(): Promise<{ lock: Lock; claim: Claim }> {
  mkdirSync(STATE, { recursive: true });
  const lock = await tryLock(join(STATE, "lock"));
  if (lock !== null && !(await isHeld(STATE))) {
    return { lock, claim: await Claim.stake(STATE) };
  }
  const pid = (await askServer(STATE))?.pid;
  const holderOfState = pid === undefined ? orphanedWrangler() : `process ${pid}`;
  console.error(`${join(STATE, "state")} is in use by ${holderOfState}: end it, and start again.`);
  return process.exit(1);
}

/** The wrangler that a killed `npm start` left behind, with its process where the system shows it. */
function orphanedWrangler(): string {
  const wrangler = "a wrangler whose npm start was killed";
  const [pid] = orphansOf(STATE);
  return pid === undefined ? wrangler : `process ${pid}, ${wrangler}`;
}

function bannerOf({ httpPort: http, tcpPorts: tcp }: StartOptions): string {
  const names: Readonly<Record<number, string>> = {
    9000: "default size",
    9001: "uint8",
    9002: "uint16",
    9004: "uint32",
    9008: "uint64",
    9020: "dialect 2",
  };
  const ports = Object.entries(names).map(([port, name]) => `${tcp[Number(port)]} (${name})`);
  const hasTcp = Object.keys(tcp).length > 0;
  const yrmcds = hasTcp ? `127.0.0.1:${tcp[11_215]}, ${tcp[11_216]} (yrmcds), ` : "";
  return `
Throttr Edge is ready, on loopback, without tokens.

  Dashboard  http://127.0.0.1:${http}/dashboard
  HTTP       POST http://127.0.0.1:${http}/throttr/7.3/uint16
  WebSocket  ws://127.0.0.1:${http}/throttr/7.3/uint16
  TCP        ${hasTcp ? `127.0.0.1:${ports.join(", ")}` : "none (--no-tcp)"}
  Semaphores ${yrmcds}ws://127.0.0.1:${http}/yrmcds/counter
  Channels   curl -N http://127.0.0.1:${http}/channels/news, and curl -d hello to publish
`;
}
