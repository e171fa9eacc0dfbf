/** How transfers name places: servers, and standard input and output. */

/** The file name that stands for standard input or output. */
export const PIPE = "-";

/** An address without query and credentials, for files and messages. */
export function addressOf(url: string): string {
  if (!URL.canParse(url)) return "";
  const { origin, pathname } = new URL(url);
  return pathname === "/" ? origin : origin + pathname;
}
