/** Markdown as a run prints it: tables whose columns line up in a terminal, too. */

/**
 * A table. The first column is text, all others are figures and stand to the right.
 *
 * @param rows as many fields each as there are titles
 */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = titles.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]!.length)),
  );
  const line = (fields: readonly string[]): string => {
    const cells = fields.map((field, column) =>
      column === 0 ? field.padEnd(widths[column]!) : field.padStart(widths[column]!),
    );
    return `| ${cells.join(" | ")} |`;
  };
  const rule = widths.map((width, column) =>
    column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`,
  );
  return [line(titles), line(rule), ...rows.map(line)].join("\n");
}

export function list(items: readonly string[]): string {
  return items.map((item) => `- ${item}`).join("\n");
}

/** A heading with what belongs to it: paragraphs, lists and tables. */
export function section(title: string, ...blocks: readonly string[]): string {
  return [`## ${title}`, ...blocks].join("\n\n");
}
