/** A bar with its figure: an element of the role meter, so that screen readers say both. */
import { formatShare } from "../format.ts";

/** How much of something is used or left. */
export function Bar({
  label,
  share,
  text,
  tone = "accent",
}: {
  readonly label: string;
  /** 0 to 1. */
  readonly share: number;
  readonly text: string;
  readonly tone?: "accent" | "good" | "bad";
}) {
  return (
    <div class="bar">
      <div
        class={`track ${tone}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={`${text}, ${formatShare(share)}`}
      >
        {share === 0 ? null : <span style={{ width: `${share * 100}%` }} />}
      </div>
      <span class="hint">{text}</span>
    </div>
  );
}
