/** What deployments of a run change in its settings: on purpose, one at a time, or by mistake. */
import type { Settings } from "../../../src/base/settings.ts";
import type { Random } from "../kernel/random.ts";
import { TOKEN_SECRET } from "../workloads/jwt.ts";

/** Variables of a deployment, by their names. */
type Variables = Readonly<Record<string, string>>;

export interface SettingChange {
  /** Of the setting. */
  readonly name: string;
  readonly variables: Variables;
}

/** Values that a setting may get in a run with these settings; none where it stays. */
type ValuesIn = (atFirst: Settings) => readonly (number | string)[];

const VALUES: Readonly<Partial<Record<keyof Settings, ValuesIn>>> = {
  HUBS_MAX: () => [1, 2, 3, 4],
  REPLAY_MESSAGES_MAX: () => [0, 1, 5, 50],
  HOLDER_TIMEOUT_MS: () => [3000, 15_000, 60_000],
  // Where Hubs are large none is full.
  HUB_CONNECTIONS_MAX: ({ HUB_CONNECTIONS_MAX: most }) => (most <= 15 ? [3, 15, 60] : []),
  // Where answers are kept for long, the package's clients send again what was lost.
  IDEMPOTENCY_TTL_MS: ({ IDEMPOTENCY_TTL_MS: ms }) => (ms < 60_000 ? [2000, 10_000, 30_000] : []),
  SHARDS: () => [1, 2, 3, 4, 5, 6, 7, 8],
  SHARDS_MAX: (atFirst) => (canSplit(atFirst) ? [1, 2, 16, 64] : []),
  SPLIT_CALLS_PER_SECOND: (atFirst) => (canSplit(atFirst) ? [0, 1, 2, 400] : []),
  // Checkers of other runs take each answer for stored.
  DURABILITY: ({ DURABILITY: atFirst }) => (atFirst === "relaxed" ? ["strict", "relaxed"] : []),
  // Where shards are large no client fills them.
  SHARD_BYTES_MAX: ({ SHARD_BYTES_MAX: bytes }) => (bytes < 2 << 20 ? [bytes, 2 << 20] : []),
};

const canSplit = ({ SHARDS_MAX }: Settings): boolean => SHARDS_MAX > 1;

/** A new secret for tokens: those that were signed with the old one stay good. */
const ROTATION: SettingChange = {
  name: "TOKEN_SECRET",
  variables: {
    TOKEN_SECRET: "the next secret of simulated tokens",
    TOKEN_SECRET_PREVIOUS: TOKEN_SECRET,
  },
};

/** By mistake: shards refuse all until it is set right. */
export const WRONG_SECRET: Variables = { SHARD_SECRET: "another" };
export const RIGHT_SECRET: Variables = { SHARD_SECRET: "" };

/** @param atFirst settings that the run began with */
export function drawnChange(atFirst: Settings, random: Random): SettingChange {
  const ofValues = Object.entries(VALUES).flatMap(([name, valuesIn]) => {
    const values = valuesIn(atFirst);
    return values.length === 0
      ? []
      : [{ name, variables: { [name]: String(random.pick(values)) } }];
  });
  return random.pick([...ofValues, ROTATION]);
}
