/**
 * The crash test: load, `kill -9`, start on the same files, compare; again and again.
 *
 * What is checked: every write that was acknowledged is there, and nothing is there that was not sent.
 * A killed process loses what it has in memory, not what it has given to the system: this says nothing
 * about a power cut.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { Client } from "./client.ts";
import { inspectCuts } from "./cuts.ts";
import { Random } from "./random.ts";
import { SERVER_DEFAULT, Site } from "./site.ts";
import { withTimeout } from "./timeout.ts";
import { createShared, verify, type Verdict } from "./verify.ts";
import { CrashViolation } from "./violation.ts";
import { makeWorks, ownKeysOf } from "./work.ts";
import { Writer } from "./writer.ts";

const CONNECTIONS = 8;
const DEPTH_MAX = 64;
const LOAD_MS_MIN = 50;
const LOAD_MS_MAX = 1500;
/** Violations that a message names; the others are counted. */
const VIOLATIONS_NAMED_MAX = 10;

/** Value sizes of the connections, in turns: both can say what the shared counters come to. */
const PROTOCOLS = [protocolByName("7.3", "uint32")!, protocolByName("7.3", "uint64")!] as const;
const WIDEST = PROTOCOLS[1];

/** What so many rounds have come to. */
export interface CrashTotals {
  readonly rounds: number;
  readonly acknowledgedWrites: number;
  readonly verifiedKeys: number;
  /** Completed cuts of journals, all shards together. */
  readonly cuts: number;
  /** Rounds that ended while a journal was being cut. */
  readonly killsWithinCuts: number;
}

/**
 * Runs the test on one set of files.
 *
 * @param rounds how often the server is killed
 * @param seed decides on the requests, the depths and the time until each kill. How far the server has
 * come by then is not in our hands, so the same seed repeats the load and not the outcome
 * @param log takes one line a round
 * @param server how the server is run; 4 shards under `wrangler dev` unless given
 * @throws CrashViolation that names the keys, what they might have been, and what was found
 *
 * @example
 * const { acknowledgedWrites } = await crashRounds(3, 42, console.log);
 */
export async function crashRounds(
  rounds: number,
  seed: number,
  log: (line: string) => void,
  server = SERVER_DEFAULT,
): Promise<CrashTotals> {
  const site = await Site.create(server);
  const dispose = (): void => site.dispose();
  process.once("exit", dispose);
  try {
    site.build();
    await site.start();
    return await new Rounds(site, seed, log).run(rounds);
  } finally {
    process.off("exit", dispose);
    await site.kill();
    site.dispose();
  }
}

class Rounds {
  readonly #site: Site;
  readonly #seed: number;
  readonly #log: (line: string) => void;
  readonly #works = makeWorks(CONNECTIONS);
  #totals: CrashTotals = {
    rounds: 0,
    acknowledgedWrites: 0,
    verifiedKeys: 0,
    cuts: 0,
    killsWithinCuts: 0,
  };

  constructor(site: Site, seed: number, log: (line: string) => void) {
    this.#site = site;
    this.#seed = seed;
    this.#log = log;
  }

  async run(rounds: number): Promise<CrashTotals> {
    await this.#ask("at first", async (client) => {
      await createShared(client, this.#works[0]!.shared);
    });
    for (let round = 1; round <= rounds; round++) await this.#round(round);
    return this.#totals;
  }

  async #round(round: number): Promise<void> {
    const site = this.#site;
    const loadMs = new Random(this.#seed, round).between(LOAD_MS_MIN, LOAD_MS_MAX);
    const acknowledgedWrites = await this.#loadAndKill(round, loadMs);
    const inDoubt = this.#works.flatMap(ownKeysOf).reduce((sum, key) => sum + key.inDoubt, 0);
    const { completed, underWay, shards } = inspectCuts(site.shardsFolder, site.copyFolder);
    await site.start();
    const { verifiedKeys, violations } = await this.#verify(round);
    this.#report(`round ${round}, after the crash`, violations);
    this.#log(
      `round ${round}: killed after ${loadMs} ms, ${acknowledgedWrites} writes acknowledged, ` +
        `${inDoubt} requests in doubt, ${completed} journal cuts so far and ${underWay} under way, ${shards} shards, ` +
        `${verifiedKeys} keys verified`,
    );
    this.#totals = {
      rounds: round,
      acknowledgedWrites: this.#totals.acknowledgedWrites + acknowledgedWrites,
      verifiedKeys: this.#totals.verifiedKeys + verifiedKeys,
      cuts: completed,
      killsWithinCuts: this.#totals.killsWithinCuts + (underWay > 0 ? 1 : 0),
    };
  }

  /** Puts load on the server until it is killed; returns how many writes were acknowledged. */
  async #loadAndKill(round: number, loadMs: number): Promise<number> {
    const clients = await Promise.all(
      this.#works.map(async (_, index) => await this.#connect(index)),
    );
    const writers = this.#works.map((work, index) => {
      const random = new Random(this.#seed, round, index);
      return new Writer(clients[index]!, work, random, random.between(1, DEPTH_MAX));
    });
    let isKilled = false;
    const startedMs = performance.now();
    const ends = clients.map(async (client, index) => {
      await client.ended;
      if (client.hasUnasked) return [`connection ${index} got a reply that it had not asked for`];
      if (isKilled) return [];
      const afterMs = Math.round(performance.now() - startedMs);
      return [`connection ${index} was closed after ${afterMs} ms, before the server was killed`];
    });
    for (const writer of writers) writer.start();
    await sleep(loadMs);
    isKilled = true;
    await this.#site.kill();
    // What the server had sent may still be on its way to us: it is acknowledged.
    const ended = await withTimeout(
      Promise.all(ends),
      `round ${round}: the connections did not end with the server`,
    );
    const violations = [...writers.flatMap((writer) => writer.violations), ...ended.flat()];
    this.#report(`round ${round}, under load`, violations);
    return writers.reduce((sum, writer) => sum + writer.acknowledgedWrites, 0);
  }

  async #verify(round: number): Promise<Verdict> {
    return await this.#ask(
      `round ${round}, after the crash`,
      async (client) => await verify(client, this.#works),
    );
  }

  /** Asks the server something over a connection that can say every value. */
  async #ask<T>(when: string, question: (client: Client) => Promise<T>): Promise<T> {
    const client = await Client.connect(this.#site.tcpPort(WIDEST.valueSize), WIDEST);
    try {
      return await withTimeout(question(client), `${when}: the server did not answer`);
    } finally {
      client.close();
    }
  }

  async #connect(connection: number): Promise<Client> {
    const protocol = PROTOCOLS[connection % PROTOCOLS.length]!;
    return await Client.connect(this.#site.tcpPort(protocol.valueSize), protocol);
  }

  #report(when: string, violations: readonly string[]): void {
    if (violations.length === 0) return;
    const named = violations.slice(0, VIOLATIONS_NAMED_MAX).join("\n");
    throw new CrashViolation(
      `${when}: ${violations.length} violations\n${named}\n` + this.#site.lastWords(),
    );
  }
}
