/** Tables, which are cards on narrow screens. */
import type { Child } from "hono/jsx/dom";
import { formatCount } from "../format.ts";
import { Icon } from "../icons.tsx";
import { useTextParameter } from "../place.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => Child;
  readonly isNumber?: boolean;
  /** On narrow screens it is the title of the row. */
  readonly isTitle?: boolean;
  /** Rows can be sorted by it; those of one table have one type. */
  readonly sortBy?: (row: Row) => string | number | bigint;
}

/** A column of figures that rows can be sorted by. */
export const figures = <Row,>(
  head: string,
  sortBy: (row: Row) => number,
  format: (figure: number) => string = formatCount,
): Column<Row> => ({ head, isNumber: true, sortBy, cell: (row) => format(sortBy(row)) });

/** The name of a row, as a button that opens it. */
export function Opener({
  text,
  title = "",
  isCurrent = false,
  onOpen,
}: {
  readonly text: string;
  readonly title?: string;
  /** It is the one that is open already. */
  readonly isCurrent?: boolean;
  readonly onOpen: () => void;
}) {
  return (
    <button
      type="button"
      class="link mono"
      title={title}
      aria-current={isCurrent ? "true" : null}
      onClick={onOpen}
    >
      {text}
    </button>
  );
}

/**
 * Rows and columns; on narrow screens each row is a card. The roles are written out, because a browser
 * that is told to lay a table out otherwise forgets that it is one.
 *
 * The head of a column that can be sorted by is a button: ascending, descending, and as the server has them. The address
 * says which. Only the rows that are here are sorted, not those of other pages.
 */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  opens = false,
  isCompact = false,
}: {
  readonly label: string;
  /** On narrow screens the cells of a row share a line, without their heads. */
  readonly isCompact?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** All of a row is pressed for its name, which opens it. */
  readonly opens?: boolean;
}) {
  const [sort, setSort] = useTextParameter("sort");
  return (
    <table role="table" aria-label={label} class={isCompact ? "compact" : ""}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, isNumber = false, sortBy }) => (
            <th
              key={head}
              role="columnheader"
              scope="col"
              class={isNumber ? "number" : ""}
              aria-sort={sortBy === undefined ? null : directionOf(head, sort)}
            >
              {sortBy === undefined ? (
                head
              ) : (
                <button type="button" class="sort" onClick={() => setSort(sortAfter(head, sort))}>
                  {head}
                  <Icon name="sort" />
                </button>
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {sorted(rows, columns, sort).map((row) => (
          <tr key={keyOf(row)} role="row" class={opens ? "opens" : ""}>
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

/** A column in the address: `time_left`; with `-` in front of it where it is descending. */
const nameOf = (head: string): string => head.toLowerCase().replaceAll(" ", "_");

function directionOf(head: string, sort: string): "ascending" | "descending" | "none" {
  if (sort === nameOf(head)) return "ascending";
  return sort === `-${nameOf(head)}` ? "descending" : "none";
}

/** The order after a press on a head. */
function sortAfter(head: string, sort: string): string {
  const next = { none: nameOf(head), ascending: `-${nameOf(head)}`, descending: "" };
  return next[directionOf(head, sort)];
}

function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sort: string,
): readonly Row[] {
  const column = columns.find(({ head }) => sort.replace(/^-/, "") === nameOf(head));
  if (column?.sortBy === undefined) return rows;
  const { sortBy } = column;
  const sign = sort.startsWith("-") ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [before, after] = [sortBy(one), sortBy(other)];
    return before === after ? 0 : before < after ? -sign : sign;
  });
}
