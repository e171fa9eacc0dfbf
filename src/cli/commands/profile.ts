/** `profile`: manages addresses and tokens by name. No command prints a token. */
import type { Command } from "commander";
import { checkedToken, doorOf } from "../../client/transport/door.ts";
import { UsageError } from "../failure.ts";
import { isInteractive } from "../host.ts";
import { action, type Invocation } from "../invocation.ts";
import { printRows, type Listing } from "../listing.ts";
import { addJsonOption } from "../options.ts";
import {
  profileNamed,
  profilesPath,
  readProfiles,
  withoutProfile,
  withProfile,
  writeProfiles,
  type Profile,
} from "../profiles.ts";
import { askSecret } from "../questions.ts";
import { valueOfArgument } from "../standard-input.ts";
import { shownText } from "../text.ts";

/** The flags of `profile add`. */
interface AddOptions {
  readonly url: string;
  readonly token?: string;
}

export function addProfile(program: Command): void {
  const profile = program
    .command("profile")
    .description("manage addresses and tokens by name")
    .enablePositionalOptions();
  addAdd(profile);
  addList(profile);
  addUse(profile);
  addRemove(profile);
}

function addAdd(profile: Command): void {
  const command = profile
    .command("add")
    .description("add or replace a profile; the first one becomes the current one")
    .argument("<name>")
    .requiredOption("--url <url>", "address of the server")
    .option("--token <token>", "access token; - reads it from standard input; asked for if missing")
    .action(
      action<AddOptions, [string]>(async (invocation, options, name) => {
        const { environment } = invocation.host;
        // Refuses an address that no command could use, before the token is asked for.
        doorOf(options.url, "http");
        const before = readProfiles(environment);
        const replaced = Object.hasOwn(before.profiles, name) ? before.profiles[name]! : null;
        // Checks the name before the person types a token for nothing.
        const file = withProfile(before, name, { url: options.url });
        const token = checkedToken(await tokenOf(invocation, options));
        const added: Profile = { url: options.url, ...(token === "" ? {} : { token }) };
        writeProfiles(environment, withProfile(file, name, added));
        const { output } = invocation;
        const json = profileJson(name, added, file.current === name);
        await output.print(replaced === null ? json : { ...json, isReplaced: true }, () =>
          output.good(
            `${replaced === null ? "added to" : "replaced in"} ${profilesPath(environment)}`,
          ),
        );
        if (replaced?.token !== undefined && added.token === undefined) {
          output.note(`${name} had a token and has none now; give one with --token`);
        }
      }),
    );
  addJsonOption(command);
}

/** The token of a new profile: from the flag, standard input or the keyboard; empty for none. */
async function tokenOf(invocation: Invocation, { token }: AddOptions): Promise<string> {
  const { host, output } = invocation;
  if (token === undefined) {
    if (!isInteractive(host) || output.isJson) return "";
    return (await askSecret(invocation, "Token (empty for none)")).trim();
  }
  const text = new TextDecoder().decode(await valueOfArgument(invocation, {}, "token", token));
  if (text.trim() !== "") return text.trim();
  throw new UsageError("token_empty", "token: standard input is empty");
}

function addList(profile: Command): void {
  const command = profile
    .command("list")
    .description("list the profiles, without their tokens")
    .action(
      action<object, []>(async ({ host, output }) => {
        const { current, profiles } = readProfiles(host.environment);
        const entries = Object.entries(profiles);
        const listing: Listing<[string, Profile]> = {
          json: ([name, entry]) => profileJson(name, entry, name === current),
          columns: [
            ["", ([name]) => (name === current ? "*" : "")],
            ["NAME", ([name]) => shownText(name)],
            ["URL", ([, { url }]) => shownText(url)],
            ["TOKEN", ([, { token }]) => (token === undefined ? "no" : "yes")],
          ],
        };
        if (entries.length > 0) await printRows(output, listing, entries);
        else output.note(`no profiles in ${profilesPath(host.environment)}`);
      }),
    );
  addJsonOption(command);
}

function addUse(profile: Command): void {
  const command = profile
    .command("use")
    .description("make a profile the current one; flags and environment variables still win")
    .argument("<name>")
    .action(
      action<object, [string]>(async ({ host, output }, _options, name) => {
        const file = readProfiles(host.environment);
        const used = profileNamed(file, name);
        writeProfiles(host.environment, { ...file, current: name });
        await output.print(profileJson(name, used, true), () =>
          output.good(`${name}: ${shownText(used.url)}`),
        );
      }),
    );
  addJsonOption(command);
}

function addRemove(profile: Command): void {
  const command = profile
    .command("remove")
    .description("remove a profile and its token")
    .argument("<name>")
    .action(
      action<object, [string]>(async ({ host, output }, _options, name) => {
        writeProfiles(host.environment, withoutProfile(readProfiles(host.environment), name));
        await output.print({ name, removed: true }, () => output.good("removed"));
      }),
    );
  addJsonOption(command);
}

/** A profile for scripts, without its token. */
const profileJson = (name: string, { url, token }: Profile, isCurrent: boolean) => ({
  name,
  url,
  hasToken: token !== undefined,
  isCurrent,
});
