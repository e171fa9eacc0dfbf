/** Tables, which are cards on narrow screens. */
import type { Child } from "hono/jsx/dom";

interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => Child;
  readonly isNumber?: boolean;
  /** On narrow screens it is the title of the row. */
  readonly isTitle?: boolean;
}

/**
 * Rows and columns; on narrow screens each row is a card. The roles are written out, because a browser
 * that is told to lay a table out otherwise forgets that it is one.
 */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  rowClass,
  isCompact = false,
}: {
  readonly label: string;
  /** On narrow screens the cells of a row share a line, without their heads. */
  readonly isCompact?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly rowClass?: (row: Row) => string;
}) {
  return (
    <table role="table" aria-label={label} class={isCompact ? "compact" : ""}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, isNumber = false }) => (
            <th key={head} role="columnheader" scope="col" class={isNumber ? "number" : ""}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={keyOf(row)} role="row" class={rowClass?.(row) ?? ""}>
            {columns.map(({ head, cell, isNumber = false, isTitle = false }) => (
              <td
                key={head}
                role="cell"
                data-label={head}
                class={`${isNumber ? "number" : ""}${isTitle ? " title" : ""}`}
              >
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
