/** Parts that screens are made of. */
import { useRef, useState, type Child } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import type { ThrottrError } from "../client/index.ts";
import { formatDuration, formatMoment, formatShare } from "./format.ts";
import { useSeconds, type Action, type Loaded } from "./hooks.ts";
import { Icon, type IconName } from "./icons.tsx";
import { lackText, scopeHint, unreachedText } from "./rights.ts";
import { serverNowMs } from "./server-clock.ts";
import { UNITS, type UnitName } from "./strategies.ts";

interface WithChildren {
  readonly children?: Child;
}

/** The head of a screen: what it is, and what can be done with all of it. */
export function ScreenHead({
  title,
  lead,
  children,
}: WithChildren & { readonly title: string; readonly lead: string }) {
  return (
    <header class="screen-head">
      <div>
        <h1 id="screen-title" tabindex={-1}>
          {title}
        </h1>
        <p class="lead">{lead}</p>
      </div>
      <div class="actions">{children}</div>
    </header>
  );
}

export function Card({
  title,
  aside,
  children,
  class: extra = "",
}: WithChildren & { readonly title: string; readonly aside?: Child; readonly class?: string }) {
  return (
    <section class={`card ${extra}`}>
      <header class="card-head">
        <h2>{title}</h2>
        <div class="aside">{aside}</div>
      </header>
      {children}
    </section>
  );
}

interface ButtonProps {
  readonly label: string;
  readonly onPress: () => void;
  readonly icon?: IconName;
  readonly kind?: "plain" | "primary" | "danger";
  /** Only the icon is seen; the label is its name. */
  readonly isBare?: boolean;
  readonly isBusy?: boolean;
  readonly disabled?: boolean;
}

export function Button({
  label,
  onPress,
  icon,
  kind = "plain",
  isBare = false,
  isBusy = false,
  disabled = false,
}: ButtonProps) {
  return (
    <button
      type="button"
      class={`button ${kind}${isBare ? " bare" : ""}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy ? "true" : null}
      {...(isBare ? { "aria-label": label } : {})}
      title={isBare ? label : ""}
      onClick={onPress}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      {isBare ? null : <span>{label}</span>}
    </button>
  );
}

/** The fields of a form that is sent: their text by name, "" for what is not there. */
export type Fields = (name: string) => string;

/** A form that does something with its fields, and says what is wrong with them. */
export function Form({
  submit,
  action,
  onSubmit,
  kind = "primary",
  isInline = false,
  also,
  children,
}: WithChildren & {
  /** What its button says. */
  readonly submit: string;
  readonly action: Action;
  readonly onSubmit: (fields: Fields) => Promise<void>;
  readonly kind?: "primary" | "danger" | "plain";
  readonly isInline?: boolean;
  /** Buttons beside. */
  readonly also?: Child;
}) {
  const send = (event: Event): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    action.run(() =>
      onSubmit((name) => {
        const value = fields.get(name);
        return typeof value === "string" ? value : "";
      }),
    );
  };
  return (
    <form class={isInline ? "form inline" : "form"} onSubmit={send} novalidate>
      {children}
      <div class="form-actions">
        <button class={`button ${kind}`} type="submit" disabled={action.isBusy}>
          <span>{submit}</span>
        </button>
        {also}
      </div>
      <Failure error={action.error} />
    </form>
  );
}

interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly value?: string;
  readonly hint?: string;
  readonly placeholder?: string;
  readonly isMono?: boolean;
  readonly isNumber?: boolean;
  readonly autofocus?: boolean;
  readonly type?: string;
  readonly onText?: (text: string) => void;
}

export function Field({
  label,
  name,
  value = "",
  hint,
  placeholder = "",
  isMono = false,
  isNumber = false,
  autofocus = false,
  type = "text",
  onText,
}: FieldProps) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <input
        class={isMono ? "mono" : ""}
        name={name}
        type={type}
        value={value}
        placeholder={placeholder}
        inputmode={isNumber ? "decimal" : "text"}
        autocomplete="off"
        autocapitalize="off"

        autofocus={autofocus}
        onInput={(event: Event) => onText?.((event.target as HTMLInputElement).value)}
      />
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </label>
  );
}

export function Choice({
  label,
  name,
  options,
  value,
  onChoice,
  isLabelHidden = false,
}: {
  readonly label: string;
  readonly name: string;
  /** What is seen, by value. */
  readonly options: Readonly<Record<string, string>>;
  readonly value: string;
  readonly onChoice?: (value: string) => void;
  readonly isLabelHidden?: boolean;
}) {
  return (
    <label class="field">
      <span class={isLabelHidden ? "unseen" : "label"}>{label}</span>
      <select
        name={name}
        onInput={(event: Event) => onChoice?.((event.target as HTMLSelectElement).value)}
      >
        {Object.entries(options).map(([option, text]) => (
          <option key={option} value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

const UNIT_LABELS: Readonly<Record<UnitName, string>> = {
  ms: "ms",
  s: "seconds",
  min: "minutes",
  h: "hours",
  d: "days",
};

/** An amount of time and its unit: fields `name` and `unitName`. */
export function TimeFields({
  label,
  name,
  unitName,
  value,
  unit,
}: {
  readonly label: string;
  readonly name: string;
  readonly unitName: string;
  readonly value: string;
  readonly unit: UnitName;
}) {
  return (
    <div class="pair">
      <Field label={label} name={name} value={value} isNumber />
      <Choice
        label={`${label}: unit`}
        name={unitName}
        value={unit}
        isLabelHidden
        options={Object.fromEntries(Object.keys(UNITS).map((u) => [u, UNIT_LABELS[u as UnitName]]))}
      />
    </div>
  );
}

/** Buttons of which one is pressed. */
export function Switch<Name extends string>({
  label,
  options,
  value,
  onChoice,
}: {
  readonly label: string;
  readonly options: readonly (readonly [name: Name, text: string])[];
  readonly value: Name;
  readonly onChoice: (name: Name) => void;
}) {
  return (
    <div class="switch" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === value ? "true" : "false"}
          onClick={() => onChoice(name)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** What went wrong, in words, and what can be done about it; nothing where nothing did. */
export function Failure({
  error,
  isAskedAgain = false,
  children,
}: WithChildren & {
  readonly error: ThrottrError | null;
  /** What failed is tried again without a press. */
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

/** In the place of what the token does not allow. */
export function Lack({ scope }: { readonly scope: string }) {
  return <Empty title="Not with this token">{lackText([scope])}</Empty>;
}

/** The message without the code that it begins with. */
export const detailOf = ({ code, message }: ThrottrError): string => {
  const detail = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message;
  return detail.charAt(0).toUpperCase() + detail.slice(1);
};

/** Where nothing is: why, and what to do. */
export function Empty({ title, children }: WithChildren & { readonly title: string }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      <div class="hint">{children}</div>
    </div>
  );
}

/** What is loaded, once it is; before that its place, and what went wrong. */
export function Loading<Value>({
  of: { value, error, isLoading, reload },
  rows = 4,
  children,
}: {
  readonly of: Loaded<Value>;
  /** Lines that are kept free for it. */
  readonly rows?: number;
  readonly children: (value: Value) => Child;
}) {
  return (
    <>
      {error === null ? null : (
        <div class="failed">
          <Failure error={error} isAskedAgain />
          <Button label="Try again" onPress={reload} isBusy={isLoading} />
        </div>
      )}
      {value === null ? error === null ? <Skeleton rows={rows} /> : null : children(value)}
    </>
  );
}

export function Skeleton({ rows }: { readonly rows: number }) {
  return (
    <div class="skeleton" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} />
      ))}
    </div>
  );
}

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
        <span style={{ width: `${share * 100}%` }} />
      </div>
      <span class="bar-text">{text}</span>
    </div>
  );
}

/** Time until a moment by the server's clock, counted down each second. */
export function Countdown({
  untilMs,
  ended = "expired",
}: {
  readonly untilMs: number;
  /** What it says from the moment on. */
  readonly ended?: string;
}) {
  useSeconds();
  const leftMs = untilMs - serverNowMs();
  return (
    <time class={leftMs > 0 ? "figure" : "figure ended"} title={formatMoment(untilMs)}>
      {leftMs > 0 ? formatDuration(leftMs) : ended}
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

/** A window above the page: in the middle, or along its side. Escape and a press beside it close it. */
export function Dialog({
  title,
  onClose,
  isDrawer = false,
  children,
}: WithChildren & {
  readonly title: string;
  readonly onClose: () => void;
  readonly isDrawer?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const close = (): void => dialog.current?.close();
  return (
    <dialog
      ref={dialog}
      class={isDrawer ? "drawer" : "middle"}
      aria-labelledby="dialog-title"
      onClose={onClose}
      onMouseDown={(event: Event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="dialog-inside">
        <header class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <Button label="Close" icon="close" isBare onPress={close} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something is done that can't be undone. */
export function Confirm({
  title,
  submit,
  action,
  onConfirm,
  onClose,
  children,
}: WithChildren & {
  readonly title: string;
  readonly submit: string;
  readonly action: Action;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit={submit}
        kind="danger"
        action={action}
        onSubmit={onConfirm}
        also={<Button label="Cancel" onPress={onClose} />}
      >
        <div class="prose">{children}</div>
      </Form>
    </Dialog>
  );
}

/** A list of names and what belongs to each. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: Child])[];
}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Text that a press puts into the clipboard. */
export function Copy({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <Button
      label={isCopied ? "Copied" : label}
      icon={isCopied ? "check" : "copy"}
      isBare
      onPress={copy}
    />
  );
}
