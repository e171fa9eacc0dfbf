/** The code in documents: fenced blocks, with where they stand. */
import { readFileSync } from "node:fs";

export interface CodeBlock {
  readonly document: string;
  /** Text of the heading that it stands under. */
  readonly heading: string;
  /** Empty where the fence names none. */
  readonly language: string;
  readonly code: string;
  /** The document and the first line of the code, which name the block in tests. */
  readonly name: string;
}

const FENCE = /^ *```(\w*)$/;

export function codeBlocksOf(document: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let heading = "";
  let language: string | null = null;
  let lines: string[] = [];
  for (const line of readFileSync(document, "utf8").split("\n")) {
    const [, named] = FENCE.exec(line) ?? [];
    if (named === undefined) {
      if (language !== null) lines.push(line);
      else if (line.startsWith("#")) heading = line.replace(/^#+ /, "");
    } else if (language === null) {
      language = named;
      lines = [];
    } else {
      const name = `${document}: ${lines[0]!.trim()}`;
      blocks.push({ document, heading, language, code: `${lines.join("\n")}\n`, name });
      language = null;
    }
  }
  if (language !== null) throw new Error(`${document}: a block is not closed`);
  return blocks;
}
