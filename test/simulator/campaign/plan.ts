/** What a run is made of, from its seed alone: shards, machines, doors, clients, and which of the workloads they have. */
import { Random } from "../kernel/random.ts";
import { BEFORE, type ReleaseName } from "./release-names.ts";
import { drawnSettings } from "./settings.ts";
import { WORKLOADS, type WorkloadName } from "../workloads/all.ts";
import { TOKEN_SECRET } from "../workloads/jwt.ts";
import { DEFAULT, NEIGHBOUR } from "../workloads/namespaces.ts";
import { TCP_PORTS } from "../workloads/wire.ts";

export interface Plan {
  readonly seed: number;
  readonly machines: number;
  readonly doors: number;
  readonly clients: number;
  /** Of all clients together, about. */
  readonly operations: number;
  readonly durationMs: number;
  /** Of shards, that an operator asks for. Shards split by themselves, too, unless it is 0. */
  readonly splits: number;
  /** `SHARDS_MAX`, where shards split. */
  readonly shardsMax: number;
  /** `SPLIT_CALLS_PER_SECOND`, where shards split: runs have a few calls a second. */
  readonly splitCalls: number;
  /** How often the database of a shard vanishes, and is put back later. */
  readonly losses: number;
  /** The first database that vanishes does not come back, and an operator accepts the loss: `ACCEPT_DATA_LOSS`. */
  readonly acceptsLoss: boolean;
  /** Deployments that change a setting: see `faults/setting-changes.ts`. */
  readonly changes: number;
  /** Deployments with another `SHARD_SECRET` by mistake, each of which is set right within minutes. */
  readonly mistakes: number;
  /** Clients of another namespace, which use records under the same keys, and channels of the same names. */
  readonly neighbours: number;
  readonly workloads: readonly WorkloadName[];
  readonly variables: Readonly<Record<string, string>>;
  /** What the run begins with. Where that is not today's code, a deployment puts it in place. */
  readonly release: ReleaseName;
  /** Calls between objects at which faults happen often, such as `Shard.adopt`. */
  readonly aims: readonly string[];
  /** Whether anything goes wrong. Objects are put to sleep in any case. */
  readonly hasFaults: boolean;
}

/** The share of runs that begin with the release before. */
const BEFORE_SHARE = 0.15;
/** The share of runs in which nothing goes wrong: checkers allow less there. */
const CALM_SHARE = 0.05;
/** Seeds are below it. */
export const SEEDS = 2 ** 32;

/** Of most runs. */
export const DURATION_MS = 600_000;
/**
 * Some runs last for hours, with few clients, so that what lasts that long ends in them; in some of those messages are kept for replay
 * until they are too old, which takes a day.
 */
const LONG = { share: 0.04, durationMs: 6 * 3_600_000, clients: 10, operations: 1500 };
const LONGER = { share: 0.2, durationMs: 30 * 3_600_000, clients: 6 };
const SHARDS_MAX = 8;
const CLIENTS = { least: 10, most: 100 };
const SPLITS = { share: 0.5, least: 1, most: 40 };
const SHARDS_MAX_SPLIT = [16, 64, 1024];
const SPLIT_CALLS = [1, 2, 400];
const LOSSES = { share: 0.1, least: 1, most: 8, accepted: 0.3 };
const CHANGES = { share: 0.15, least: 1, most: 6 };
const MISTAKES = { share: 0.08, least: 1, most: 4 };
const NEIGHBOURS = { share: 0.3, least: 1, most: 10, operations: 40 };
/** The share of runs with splits that aim at a call of their protocol: such calls are few, and hardly ever hit by chance. */
const AIMED_SHARE = 0.5;
const SPLIT_CALLS_AIMED = ["Shard.adopt", "Shard.given", "Shard.verdictOn"];
const OPERATIONS = { least: 1_500, most: 5_000 };
/** Messages that a channel keeps for listeners that come back. */
const REPLAYED = [0, 0, 1, 5, 50, 1000];

export function planOf(seed: number): Plan {
  const plan = shortPlanOf(seed);
  const random = new Random(seed).fork("duration");
  if (!random.chance(LONG.share)) return plan;
  const { durationMs, clients, operations } = LONG;
  const long = { ...plan, durationMs, operations, clients: Math.min(clients, plan.clients) };
  if (!random.chance(LONGER.share)) return long;
  return {
    ...long,
    durationMs: LONGER.durationMs,
    clients: LONGER.clients,
    neighbours: 0,
    workloads: ["channels"],
  };
}

function shortPlanOf(seed: number): Plan {
  const random = new Random(seed).fork("plan");
  const names = Object.keys(WORKLOADS) as WorkloadName[];
  // Of its own source: a workload more leaves the rest of a plan as it is.
  const choice = random.fork("workloads");
  // The same for splits.
  const splitting = random.fork("splits");
  const settings = drawnSettings(random);
  const losing = random.fork("losses");
  const changing = random.fork("changes");
  const neighbouring = random.fork("neighbours");
  const some = names.filter(() => choice.chance(0.5));
  const shards = 1 + random.int(SHARDS_MAX);
  const splits = timesOf(SPLITS, splitting);
  const losses = timesOf(LOSSES, losing);
  return {
    seed,
    machines: 1 + random.int(4),
    doors: 1 + random.int(3),
    clients: Math.round(random.skewed(CLIENTS.least, CLIENTS.most)),
    operations: Math.round(random.skewed(OPERATIONS.least, OPERATIONS.most)),
    durationMs: DURATION_MS,
    splits,
    shardsMax: splitting.pick(SHARDS_MAX_SPLIT),
    splitCalls: splitting.pick(SPLIT_CALLS),
    losses,
    acceptsLoss: losses > 0 && losing.chance(LOSSES.accepted),
    changes: timesOf(CHANGES, changing),
    mistakes: timesOf(MISTAKES, changing),
    neighbours: timesOf(NEIGHBOURS, neighbouring),
    workloads: some.length > 0 ? some : [choice.pick(names)],
    variables: {
      ACCESS: "open",
      YRMCDS_ENABLE: "on",
      SHARDS: String(shards),
      TCP_PORTS,
      TOKEN_SECRET,
      HUBS_MAX: String(1 + random.int(3)),
      REPLAY_MESSAGES_MAX: String(random.pick(REPLAYED)),
      ...settings,
    },
    ...calmOrBefore(random),
    aims: splits > 0 && splitting.chance(AIMED_SHARE) ? [splitting.pick(SPLIT_CALLS_AIMED)] : [],
  };
}

/** How often something happens in a run, or how many there are of something: none in some runs. */
const timesOf = (
  { share, least, most }: { readonly share: number; readonly least: number; readonly most: number },
  random: Random,
): number => (random.chance(share) ? Math.round(random.skewed(least, most)) : 0);

/** Where nothing goes wrong no release takes the place of another, and a run of the release before alone shows nothing. */
function calmOrBefore(random: Random): Pick<Plan, "hasFaults" | "release"> {
  const hasFaults = !random.chance(CALM_SHARE);
  const isBefore = random.chance(BEFORE_SHARE);
  return { hasFaults, release: hasFaults && isBefore ? BEFORE : "today" };
}

/**
 * Plans of seeds from a first one on.
 *
 * @param workloads of all of them; those that the seeds choose unless given
 */
export function* plansFrom(
  first: number,
  count: number,
  workloads?: readonly WorkloadName[],
): Generator<Plan> {
  for (let i = 0; i < count; i++) {
    const plan = planOf((first + i) % SEEDS);
    yield workloads === undefined ? plan : { ...plan, workloads };
  }
}

/**
 * Reads a plan from the command line: a JSON object with a seed, and with each part of the seed's own plan that differs.
 *
 * @throws Error when it is not a plan
 */
export function readPlan(json: string): Plan {
  const given = JSON.parse(json) as Partial<Plan>;
  if (!isSeed(given.seed)) throw new Error("a plan needs a seed, a whole number below 2^32");
  const own = planOf(given.seed);
  const unknown = Object.keys(given).find((name) => !(name in own));
  if (unknown !== undefined) throw new Error(`a plan has no ${unknown}`);
  return { ...own, ...given };
}

/** As `readPlan` reads it: what differs from the seed's own plan. */
export function writePlan(plan: Plan): string {
  const own = planOf(plan.seed) as unknown as Record<string, unknown>;
  const differs = ([name, value]: [string, unknown]): boolean =>
    name === "seed" || JSON.stringify(value) !== JSON.stringify(own[name]);
  return JSON.stringify(Object.fromEntries(Object.entries(plan).filter(differs)));
}

/** How often databases vanish in a run: a shard of release 0.4.0 whose database has vanished begins anew. */
export const lossesOf = ({ hasFaults, release, losses }: Plan): number =>
  hasFaults && release === "today" ? losses : 0;

/** Whether one of them is lost for good in a run. */
export const losesForGood = (plan: Plan): boolean => plan.acceptsLoss && lossesOf(plan) > 0;

/** Whether shards answer before the disk has what they answer about. */
export const isRelaxed = ({ variables }: Plan): boolean => variables["DURABILITY"] === "relaxed";

/** Clients of another namespace in a run: none where it begins with release 0.4.0, or where data is lost for good. */
export const neighboursOf = (plan: Plan): number =>
  plan.release === "today" && !losesForGood(plan) ? plan.neighbours : 0;

/** The part of a run that is theirs. */
export function neighbours(plan: Plan): Plan {
  const clients = neighboursOf(plan);
  return { ...plan, clients, operations: clients * NEIGHBOURS.operations };
}

/** Whose clients use the deployment of a run. */
export const namespacesOf = (plan: Plan): readonly string[] =>
  neighboursOf(plan) > 0 ? [DEFAULT, NEIGHBOUR] : [DEFAULT];

/**
 * Whether deployments change settings in a run. Those of release 0.4.0 have a number of shards that stays, and a loss is accepted by a
 * deployment of its own.
 */
const hasDeployments = (plan: Plan): boolean =>
  plan.hasFaults && plan.release === "today" && !losesForGood(plan);

/** How often a deployment changes settings in a run. */
export const changesOf = (plan: Plan): number => (hasDeployments(plan) ? plan.changes : 0);

/** How often one has another secret by mistake. */
export const mistakesOf = (plan: Plan): number => (hasDeployments(plan) ? plan.mistakes : 0);

export const isSeed = (seed: unknown): seed is number =>
  Number.isInteger(seed) && (seed as number) >= 0 && (seed as number) < SEEDS;
