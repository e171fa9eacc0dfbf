/** Refreshes the list of a screen: by a press, or at an interval that all screens share. */
import { formatTime } from "../format.ts";
import { refreshStore, type Loaded } from "../hooks.ts";
import { useStore } from "../store.ts";
import { Button } from "./button.tsx";

const INTERVALS: readonly (readonly [ms: number, text: string])[] = [
  [0, "Auto-refresh off"],
  [5000, "Every 5 s"],
  [15_000, "Every 15 s"],
  [60_000, "Every minute"],
];

export function Refresh({
  of: { isLoading, loadedAtMs, reload },
}: {
  readonly of: Pick<Loaded<unknown>, "isLoading" | "loadedAtMs" | "reload">;
}) {
  const everyMs = useStore(refreshStore);
  return (
    <div class="refresh">
      <span class="hint figure">
        {loadedAtMs === null ? "" : `Refreshed at ${formatTime(loadedAtMs)}`}
      </span>
      <select
        aria-label="Refresh interval"
        onInput={(event: Event) =>
          refreshStore.set(Number((event.target as HTMLSelectElement).value))
        }
      >
        {INTERVALS.map(([ms, text]) => (
          <option key={ms} value={ms} selected={ms === everyMs}>
            {text}
          </option>
        ))}
      </select>
      <Button label="Refresh" icon="reload" isBare isBusy={isLoading} onPress={reload} />
    </div>
  );
}
