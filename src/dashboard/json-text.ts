/**
 * JSON with line breaks, made of the text itself: numbers keep all their digits, and names that come twice stay, which
 * `JSON.parse` would lose.
 */

/** A text in quotes, a sign, or a number or word. Only spaces are left out. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s"[\]{},:]+/g;

/** Whether a text is JSON; not for a bare number or word, which gains nothing from line breaks. */
export function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * JSON with a line for each entry, and two spaces for each level.
 *
 * @param json a valid text
 * @param lengthMax ends soon behind so many characters: a deep structure has far more spaces than text
 */
export function indentedJson(json: string, lengthMax: number): string {
  let indented = "";
  let depth = 0;
  /** Of an object or a list that has just begun. */
  let isEmpty = false;
  const breakLine = (): void => {
    indented += `\n${"  ".repeat(depth)}`;
  };
  for (const [token] of json.matchAll(TOKEN)) {
    if (indented.length > lengthMax) break;
    const isEnd = token === "]" || token === "}";
    if (isEnd) depth--;
    if (isEmpty !== isEnd && (isEmpty || isEnd)) breakLine();
    isEmpty = token === "[" || token === "{";
    if (isEmpty) depth++;
    indented += token === ":" ? ": " : token;
    if (token === ",") breakLine();
  }
  return indented;
}
