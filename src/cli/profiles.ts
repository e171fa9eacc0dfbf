/**
 * Profiles: addresses and tokens by name, in a file that only its owner can read.
 *
 * The file holds tokens, so its mode is 0600 from its first byte, and it is replaced as a whole: a crash leaves the
 * old file or the new one, never half of it.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { UsageError } from "./failure.ts";
import { createFolder, textIfThere } from "./files.ts";
import type { Host } from "./host.ts";

/** Only the owner may read and write. */
const FILE_MODE = 0o600;
/** Only the owner may enter. */
const FOLDER_MODE = 0o700;
/** Bounds the file, which each command reads whole. */
const PROFILES_MAX = 1000;
/** Names that need no quotes in any shell. */
const NAME = /^[\w.-]{1,64}$/;

/** Strict: a misspelled field would silently lose a token. */
const profileSchema = v.strictObject({ url: v.string(), token: v.optional(v.string()) });
const fileSchema = v.strictObject({
  current: v.nullable(v.string()),
  profiles: v.record(v.string(), profileSchema),
});

/** An address and the token for it. */
export type Profile = v.InferOutput<typeof profileSchema>;

/** The contents of the file. Commands use the profile `current`, null for none, unless another is named. */
export type ProfileFile = Readonly<v.InferOutput<typeof fileSchema>>;

/** A folder by the XDG base directory specification, which says to ignore relative paths in its variables. */
export function xdgFolder(
  environment: Host["environment"],
  variable: string,
  otherwise: string,
): string {
  const folder = environment[variable];
  const home = environment.HOME || homedir();
  return join(folder?.startsWith("/") === true ? folder : join(home, otherwise), "throttr-edge");
}

/** The path of the profile file: `$XDG_CONFIG_HOME/throttr-edge/profiles.json`. */
export function profilesPath(environment: Host["environment"]): string {
  return join(xdgFolder(environment, "XDG_CONFIG_HOME", ".config"), "profiles.json");
}

/** Reads the file; no profiles if it does not exist. @throws UsageError `profiles_invalid` */
export function readProfiles(environment: Host["environment"]): ProfileFile {
  const path = profilesPath(environment);
  const text = readText(path);
  if (text === null) return { current: null, profiles: {} };
  const result = v.safeParse(v.pipe(v.string(), v.parseJson(), fileSchema), text);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const field = v.getDotPath(issue);
  throw new UsageError(
    "profiles_invalid",
    `${path}: ${field === null ? "" : `${field}: `}${issue.message}`,
  );
}

/** The text of the file; null without one. @throws UsageError `profiles_invalid` */
function readText(path: string): string | null {
  try {
    return textIfThere(path);
  } catch (error) {
    throw new UsageError("profiles_invalid", `${path} can't be read: ${String(error)}`);
  }
}

/** Replaces the file, as a whole or not at all. @throws UsageError `profiles_unwritable` */
export function writeProfiles(environment: Host["environment"], file: ProfileFile): void {
  const path = profilesPath(environment);
  // With the process id: two commands at once must not write the same draft.
  const draft = `${path}.${process.pid}`;
  try {
    createFolder(dirname(path), FOLDER_MODE);
    // `writeFileSync` sets the mode of new files only: a draft left by a crash could be readable by others.
    rmSync(draft, { force: true });
    writeFileSync(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: FILE_MODE, flag: "wx" });
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new UsageError("profiles_unwritable", `${path} can't be written: ${String(error)}`);
  }
}

/** @throws UsageError `profile_unknown` */
export function profileNamed({ profiles }: ProfileFile, name: string): Profile {
  if (Object.hasOwn(profiles, name)) return profiles[name]!;
  const known = Object.keys(profiles).join(", ") || "none";
  throw new UsageError("profile_unknown", `profile ${name} does not exist; known: ${known}`);
}

/** The file with a profile added or replaced. The first profile becomes the current one. */
export function withProfile(file: ProfileFile, name: string, profile: Profile): ProfileFile {
  if (!NAME.test(name) || name === "__proto__") {
    throw new UsageError(
      "profile_invalid",
      "name: expected 1 to 64 letters, digits, dots, dashes or underscores",
    );
  }
  const profiles = { ...file.profiles, [name]: profile };
  if (Object.keys(profiles).length > PROFILES_MAX) {
    throw new UsageError(
      "profiles_max",
      `the file already has ${PROFILES_MAX} profiles, which is the limit; remove one first`,
    );
  }
  return { current: file.current ?? name, profiles };
}

/** The file without a profile. @throws UsageError `profile_unknown` */
export function withoutProfile(file: ProfileFile, name: string): ProfileFile {
  profileNamed(file, name);
  const profiles = Object.fromEntries(
    Object.entries(file.profiles).filter(([other]) => other !== name),
  );
  return { current: file.current === name ? null : file.current, profiles };
}
