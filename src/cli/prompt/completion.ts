/** Completion of a word, at the prompt or in a shell: commands, options, their choices, and keys of the server. */
import type { Argument, Command, Option } from "commander";

/** Lists the keys that begin with a text; none if the server cannot be asked. */
export type KeysUnder = (prefix: string) => Promise<readonly string[]>;

/** The position in a command line that the previous words lead to. */
interface Place {
  readonly command: Command;
  /** The option whose value comes next; null if an operand or an option does. */
  readonly option: Option | null;
  /** Operands given so far. */
  readonly operands: number;
}

const LAST_WORD = /\S*$/;
/** Words without characters that would need quotes. */
const PLAIN = /^[^\s'"\\#]+$/;

/**
 * Completions of the last word of a line, and that word. None once the line has a quote or a backslash.
 *
 * @param extra commands of the prompt itself
 */
export async function completionsOf(
  program: Command,
  extra: readonly string[],
  line: string,
  keysUnder: KeysUnder,
): Promise<[readonly string[], string]> {
  const word = LAST_WORD.exec(line)![0];
  const before = line.slice(0, line.length - word.length);
  // Where a quoted word begins can't be told from the last word alone.
  if (/['"\\]/.test(line)) return [[], word];
  const words = before.split(/\s+/).filter(Boolean);
  const hits = await hitsOf(program, extra, words, word, keysUnder);
  return [hits.map((hit) => `${hit} `), word];
}

/** Completions of a word after other words. */
export async function hitsOf(
  program: Command,
  extra: readonly string[],
  before: readonly string[],
  word: string,
  keysUnder: KeysUnder,
): Promise<readonly string[]> {
  const place = placeOf(program, before);
  if (place === null) return [];
  const candidates = await candidatesOf(place, extra, word, keysUnder);
  return candidates.filter((candidate) => candidate.startsWith(word)).toSorted();
}

/** The position after some words; null where nothing can be completed, as after `--`. */
function placeOf(program: Command, words: readonly string[]): Place | null {
  let command = program;
  let option: Option | null = null;
  let operands = 0;
  for (const word of words) {
    if (option !== null) {
      option = null;
    } else if (word === "--") {
      return null;
    } else if (word.startsWith("-")) {
      const known = optionsOf(command).find(({ long, short }) => word === long || word === short);
      option = known !== undefined && !known.isBoolean() ? known : null;
    } else {
      const next = command.commands.find((some) => some.name() === word);
      if (next === undefined && command.commands.length > 0) return null;
      if (next === undefined) operands++;
      else command = next;
    }
  }
  return { command, option, operands };
}

/** Everything that may stand at a place. */
async function candidatesOf(
  { command, option, operands }: Place,
  extra: readonly string[],
  word: string,
  keysUnder: KeysUnder,
): Promise<readonly string[]> {
  if (option !== null) return option.argChoices ?? [];
  if (word.startsWith("-")) return optionsOf(command).flatMap(({ long }) => long ?? []);
  if (command.commands.length > 0) {
    const visible = command.createHelp().visibleCommands(command);
    const names = command.commands
      .filter((some) => visible.includes(some))
      .map((some) => some.name());
    return command.parent === null ? [...names, ...extra] : names;
  }
  const argument = argumentAt(command, operands);
  if (argument?.argChoices !== undefined) return argument.argChoices;
  if (argument === undefined || !/^keys?$/.test(argument.name())) return [];
  return (await keysUnder(word)).filter((key) => PLAIN.test(key));
}

/** The argument at a position; the last one again if it takes several words. */
function argumentAt({ registeredArguments }: Command, at: number): Argument | undefined {
  const last = registeredArguments.at(-1);
  return registeredArguments[at] ?? (last?.variadic === true ? last : undefined);
}

/** The options of a command, without hidden ones. */
function optionsOf(command: Command): readonly Option[] {
  return command.createHelp().visibleOptions(command);
}
