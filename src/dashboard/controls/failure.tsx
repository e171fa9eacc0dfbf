/** Shown while data is loaded, when that fails, and when the token does not allow it. */
import type { Child } from "hono/jsx/dom";
import type { ThrottrError } from "../../client/index.ts";
import type { ScopeName } from "../../wire/throttr/requests.ts";
import type { Loaded } from "../hooks.ts";
import { Icon } from "../icons.tsx";
import { lackText, scopeHint, unreachedText } from "../rights.ts";
import { lacksScope, type Session } from "../session.ts";
import { Button } from "./button.tsx";
import { Empty, Skeleton, type WithChildren } from "./layout.tsx";

/** An error in words, with its code; nothing for null. */
export function Failure({
  error,
  isAskedAgain = false,
  children,
}: WithChildren & {
  readonly error: ThrottrError | null;
  /** It is retried without a press. */
  readonly isAskedAgain?: boolean;
}) {
  if (error === null) return null;
  const hint = scopeHint(error) ?? unreachedText(error, isAskedAgain);
  return (
    <div class="failure" role="alert">
      <Icon name="warning" />
      <div>
        <p>{hint ?? detailOf(error)}</p>
        <p class="hint">
          <code>{error.code}</code>
        </p>
        {children}
      </div>
    </div>
  );
}

/** A part of a screen; in its place, where the token does not allow it, what the token lacks. */
export function Allowed({
  session,
  scope,
  children,
}: WithChildren & { readonly session: Session; readonly scope: ScopeName }) {
  if (!lacksScope(session, scope)) return <>{children}</>;
  return <Empty title="Not allowed">{lackText([scope])}</Empty>;
}

/** The message without the code that it begins with. */
const detailOf = ({ code, message }: ThrottrError): string => {
  const detail = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message;
  return detail.charAt(0).toUpperCase() + detail.slice(1);
};

/**
 * Renders data once it is loaded, and grey lines in its place before that. After a failed refresh the error is shown above
 * the data of before: an outage does not empty the screen.
 */
export function Loading<Value>({
  of: { value, error, isLoading, reload },
  rows = 4,
  children,
}: {
  readonly of: Loaded<Value>;
  /** Grey lines: about as high as the data will be, so that the page does not jump. */
  readonly rows?: number;
  readonly children: (value: Value) => Child;
}) {
  return (
    <>
      {error === null ? null : (
        <div class="failed">
          <Failure error={error} isAskedAgain />
          <Button label="Retry" onPress={reload} isBusy={isLoading} />
        </div>
      )}
      {value === null ? error === null ? <Skeleton rows={rows} /> : null : children(value)}
    </>
  );
}
