/**
 * Which server, and which token: from flags, else the environment, else a profile.
 *
 * A profile that a flag names comes before the environment. A token of a profile is shown to the address
 * of that profile only.
 */
import type { Host } from "./host.ts";
import type { ConnectionOptions } from "./options.ts";
import { profileNamed, readProfiles, type Profile } from "./profiles.ts";

const URL_UNLESS_GIVEN = "http://127.0.0.1:8787";
const TIMEOUT_MS = 10_000;

/** What a command connects with. */
export interface ConnectionSettings {
  readonly url: string;
  /** Null where none is shown. */
  readonly token: string | null;
  readonly timeoutMs: number;
}

/** @throws UsageError `profile_unknown`, `profiles_invalid` */
export function connectionSettings(
  { environment }: Host,
  options: ConnectionOptions,
): ConnectionSettings {
  const isNamed = options.profile !== undefined;
  const url = options.url ?? (isNamed ? undefined : environment.THROTTR_URL || undefined);
  const token = options.token ?? (isNamed ? undefined : environment.THROTTR_TOKEN || undefined);
  const profile = profileOf(environment, options.profile, url === undefined);
  const address = url ?? profile?.url ?? URL_UNLESS_GIVEN;
  return {
    url: address,
    token: token ?? (profile?.url === address ? profile.token : undefined) ?? null,
    timeoutMs: options.timeout ?? TIMEOUT_MS,
  };
}

/** @param isNeeded nothing else says the address: then the current profile does */
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
