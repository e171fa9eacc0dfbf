/**
 * Which server to use, and which token: from flags, otherwise from the environment, otherwise from a profile.
 *
 * A profile named by a flag wins over the environment. A profile's token is sent to the address of that profile only:
 * `--url` with another address must not hand the token to a stranger's server.
 */
import { credentialsFor } from "../wire/credentials.ts";
import type { Host } from "./host.ts";
import type { ConnectionOptions } from "./options.ts";
import { profileNamed, readProfiles, type Profile } from "./profiles.ts";

/** Where `npm start` and `serve` listen. */
const URL_UNLESS_GIVEN = "http://127.0.0.1:8787";
/** Longer than a cold start of all objects, and short enough for a person to wait. */
const TIMEOUT_MS = 10_000;

/** What a command needs to connect. */
export interface ConnectionSettings {
  /** As it was written; each transport derives its own address from it. */
  readonly url: string;
  /** Null for no token. */
  readonly token: string | null;
  /** Of one call, in milliseconds. */
  readonly timeoutMs: number;
}

/** Resolves the settings of a command. @throws UsageError `profile_unknown`, `profiles_invalid` */
export function connectionSettings(
  { environment }: Host,
  options: ConnectionOptions,
): ConnectionSettings {
  // A profile that a flag names is meant as a whole: variables of the shell must not mix with it.
  const isNamed = options.profile !== undefined;
  const url = options.url ?? (isNamed ? undefined : environment.THROTTR_URL || undefined);
  const token = options.token ?? (isNamed ? undefined : environment.THROTTR_TOKEN || undefined);
  const profile = profileOf(environment, options.profile, url === undefined);
  const address = url ?? profile?.url ?? URL_UNLESS_GIVEN;
  const given = token ?? (profile?.url === address ? profile.token : undefined) ?? null;
  const { namespace } = options;
  return {
    url: address,
    token: namespace === undefined ? given : credentialsFor(given, namespace),
    timeoutMs: options.timeout ?? TIMEOUT_MS,
  };
}

/** @param isNeeded whether nothing else gave the address, so that the current profile decides */
function profileOf(
  environment: Host["environment"],
  flag: string | undefined,
  isNeeded: boolean,
): Profile | null {
  const named = flag ?? (environment.THROTTR_PROFILE || undefined);
  if (named === undefined && !isNeeded) return null;
  const file = readProfiles(environment);
  const name = named ?? file.current;
  return name === null ? null : profileNamed(file, name);
}
