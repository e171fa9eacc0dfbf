/** Differences of two texts, in the format of `diff -u`. */

/** Lines around a change that are shown with it. */
const CONTEXT = 3;

interface Line {
  readonly mark: " " | "+" | "-";
  readonly text: string;
}

/**
 * The lines of a unified diff.
 *
 * @param before null for a file that is new
 */
export function diffOf(name: string, before: string | null, after: string): string[] {
  const lines = linesOf(splitLines(before ?? ""), splitLines(after));
  const head = [before === null ? "--- /dev/null" : `--- ${name}`, `+++ ${name}`];
  return [...head, ...hunksOf(lines)];
}

const splitLines = (text: string): string[] =>
  text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/);

/** Both texts line by line, by their longest common subsequence. */
function linesOf(before: readonly string[], after: readonly string[]): Line[] {
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let k = after.length - 1; k >= 0; k--) {
      const isSame = before[i] === after[k];
      common[i]![k] = isSame
        ? common[i + 1]![k + 1]! + 1
        : Math.max(common[i + 1]![k]!, common[i]![k + 1]!);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let k = 0;
  while (i < before.length || k < after.length) {
    if (i < before.length && k < after.length && before[i] === after[k]) {
      lines.push({ mark: " ", text: before[i]! });
      i++;
      k++;
    } else if (
      k < after.length &&
      (i === before.length || common[i]![k + 1]! > common[i + 1]![k]!)
    ) {
      lines.push({ mark: "+", text: after[k++]! });
    } else {
      lines.push({ mark: "-", text: before[i++]! });
    }
  }
  return lines;
}

/** Changes with their context; those that are near each other share a hunk. */
function hunksOf(lines: readonly Line[]): string[] {
  const isShown = lines.map((_line, i) =>
    lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some(({ mark }) => mark !== " "),
  );
  const shown: string[] = [];
  let oldLine = 1;
  let newLine = 1;
  lines.forEach(({ mark, text }, i) => {
    if (isShown[i] === true && isShown[i - 1] !== true) {
      const end = isShown.indexOf(false, i);
      const hunk = lines.slice(i, end < 0 ? lines.length : end);
      const count = (other: Line["mark"]) => hunk.filter((line) => line.mark !== other).length;
      const range = (line: number, size: number) => `${size === 0 ? line - 1 : line},${size}`;
      shown.push(`@@ -${range(oldLine, count("+"))} +${range(newLine, count("-"))} @@`);
    }
    if (isShown[i] === true) shown.push(mark + text);
    if (mark !== "+") oldLine++;
    if (mark !== "-") newLine++;
  });
  return shown;
}
