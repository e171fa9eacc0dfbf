/** Profiles: addresses and tokens by name, in a file that nobody else can read. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { UsageError } from "./failure.ts";

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const PROFILES_MAX = 1000;
const NAME = /^[\w.-]{1,64}$/;

const profileSchema = v.strictObject({ url: v.string(), token: v.optional(v.string()) });
const fileSchema = v.strictObject({
  current: v.nullable(v.string()),
  profiles: v.record(v.string(), profileSchema),
});

/** An address, and what opens it. */
export type Profile = v.InferOutput<typeof profileSchema>;

/** What the file says. */
export interface ProfileFile {
  /** The profile that is used unless another is named. */
  readonly current: string | null;
  readonly profiles: Readonly<Record<string, Profile>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A folder of the XDG base directories, or what stands for it. Relative paths are to be ignored. */
export function xdgFolder(environment: Environment, variable: string, otherwise: string): string {
  const folder = environment[variable];
  const home = environment.HOME || homedir();
  return join(folder?.startsWith("/") === true ? folder : join(home, otherwise), "throttr-edge");
}

/** Where the profiles are: `$XDG_CONFIG_HOME/throttr-edge/profiles.json`. */
export function profilesPath(environment: Environment): string {
  return join(xdgFolder(environment, "XDG_CONFIG_HOME", ".config"), "profiles.json");
}

/** @throws UsageError `profiles_invalid` when the file can't be read, or is none of ours */
export function readProfiles(environment: Environment): ProfileFile {
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

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw new UsageError("profiles_invalid", `${path} can't be read: ${String(error)}`);
  }
}

/** Replaces the file, whole or not at all. @throws UsageError `profiles_unwritable` */
export function writeProfiles(environment: Environment, file: ProfileFile): void {
  const path = profilesPath(environment);
  const draft = `${path}.${process.pid}`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    // A file that is there keeps its mode: the draft must be a new one.
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
  throw new UsageError("profile_unknown", `profile ${name}: there is none; known: ${known}`);
}

/** The file with a profile added, or replaced. The first one becomes the current one. */
export function withProfile(file: ProfileFile, name: string, profile: Profile): ProfileFile {
  if (!NAME.test(name) || name === "__proto__") {
    throw new UsageError(
      "profile_invalid",
      "name: 1 to 64 letters, digits, dots, dashes or underscores are expected",
    );
  }
  const profiles = { ...file.profiles, [name]: profile };
  if (Object.keys(profiles).length > PROFILES_MAX) {
    throw new UsageError("profiles_max", `at most ${PROFILES_MAX} profiles are possible`);
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
