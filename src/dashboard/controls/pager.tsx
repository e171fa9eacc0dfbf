/**
 * Previous and Next for lists with cursors. The server only names the next page, so the pager keeps the cursors of all
 * pages before: Previous drops the last one.
 */
import { Button } from "./button.tsx";
import { formatCount } from "../format.ts";

export function Pager<Cursor>({
  cursors,
  next,
  isBusy,
  isNumbered = false,
  onTurn,
}: {
  /** Those of the pages before and of this one, but for the first, which has none. */
  readonly cursors: readonly Cursor[];
  /** Of the next page; null behind the last one. */
  readonly next: Cursor | null;
  /** The page is not there yet: `next` is that of the one before. */
  readonly isBusy: boolean;
  readonly isNumbered?: boolean;
  readonly onTurn: (cursors: readonly Cursor[]) => void;
}) {
  return (
    <div class="pager hint">
      <Button
        label="Previous"
        icon="previous"
        disabled={cursors.length === 0}
        onPress={() => onTurn(cursors.slice(0, -1))}
      />
      {isNumbered ? <span class="figure">Page {formatCount(cursors.length + 1)}</span> : null}
      <Button
        label="Next"
        icon="next"
        disabled={next === null}
        isBusy={isBusy}
        onPress={() => {
          if (next !== null) onTurn([...cursors, next]);
        }}
      />
    </div>
  );
}
