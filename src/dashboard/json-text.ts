/**
 * Indents JSON token by token. `JSON.parse` and `JSON.stringify` would lose digits of large numbers, and all but the last of
 * several entries with one name.
 */

/** A string, a sign such as a bracket, or a number or word. What lies between tokens of valid JSON is white space. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s"[\]{},:]+/g;

/** Whether a text is an object or a list in JSON. False for other JSON, which gains nothing from line breaks. */
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
 * @param json valid JSON
 * @param lengthMax in characters; the rest is cut off at the first token beyond it, because deep nesting makes far more spaces than text
 */
export function indentedJson(json: string, lengthMax: number): string {
  let indented = "";
  let depth = 0;
  /** Whether the last token began an object or a list. */
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
