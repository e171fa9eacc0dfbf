/** Splits a line of the prompt into words, with quotes and backslashes as in a shell; no variables, pipes or globs. */
import { UsageError } from "../failure.ts";

const SPACE = /\s/;
/** Escapes within double quotes. Any other character after a backslash stands for itself. */
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", 0: "\0" };

/**
 * Splits a line into words. A word that begins with `#` starts a comment.
 *
 * @throws UsageError `line_invalid` when a quote is not closed, or a backslash ends the line
 */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let i = 0; i < line.length; i++) {
    const character = line[i]!;
    if (character === "\\" && quote !== "'") {
      const next = line[++i];
      if (next === undefined) throw new UsageError("line_invalid", "a backslash ends the line");
      word = (word ?? "") + (quote === null ? next : (ESCAPES[next] ?? next));
    } else if (quote !== null) {
      if (character === quote) quote = null;
      else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= "";
    } else if (SPACE.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else if (character === "#" && word === null) {
      return words;
    } else {
      word = (word ?? "") + character;
    }
  }
  if (quote !== null) throw new UsageError("line_invalid", `a quote ${quote} is not closed`);
  if (word !== null) words.push(word);
  return words;
}
