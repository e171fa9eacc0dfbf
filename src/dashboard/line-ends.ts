/** Line ends of a text that a form has changed: a field of several lines has LF alone. */

/** Whether a changed text can't keep its line ends, because they are neither all LF nor all CRLF. */
export const losesEnds = (text: string): boolean => text.includes("\r") && !isCrlf(text);

const isCrlf = (text: string): boolean => !/(?<!\r)\n|\r(?!\n)/.test(text);

/**
 * The text of a field, with the line ends of the text that the field began with: CRLF if all of them were.
 * A text that was not changed stays as it was, whatever its line ends.
 */
export function withEndsOf(before: string, field: string): string {
  const text = withLf(field);
  if (text === withLf(before)) return before;
  return before.includes("\r") && isCrlf(before) ? text.replaceAll("\n", "\r\n") : text;
}

const withLf = (text: string): string => text.replace(/\r\n?/g, "\n");
