/** Times that count up or down, by the server's clock: the reader's may be wrong by minutes. */
import { formatDuration, formatMoment } from "../format.ts";
import { useSeconds } from "../hooks.ts";
import { serverNowMs } from "../server-clock.ts";

/** Time until a moment by the server's clock, counted down each second. */
export function Countdown({
  untilMs,
  before = "",
  ended = "expired",
}: {
  readonly untilMs: number;
  /** Text in front of the time, until the moment. */
  readonly before?: string;
  /** Shown from the moment on. */
  readonly ended?: string;
}) {
  useSeconds();
  const leftMs = untilMs - serverNowMs();
  return (
    <time class={leftMs > 0 ? "figure" : "figure ended"} title={formatMoment(untilMs)}>
      {leftMs > 0 ? before + formatDuration(leftMs) : ended}
    </time>
  );
}

/** Time since a moment by the server's clock. */
export function Since({ sinceMs }: { readonly sinceMs: number }) {
  useSeconds();
  return (
    <time class="figure" title={formatMoment(sinceMs)}>
      {formatDuration(Math.max(0, Math.floor((serverNowMs() - sinceMs) / 1000) * 1000))}
    </time>
  );
}
