/**
 * Forms and their fields. Fields are uncontrolled: the browser keeps the text, and a form reads all of them when it is
 * sent. So rendering a screen again, each second for its countdowns, never disturbs typing.
 */
import type { Child } from "hono/jsx/dom";
import type { Action } from "../hooks.ts";
import { UNITS, type UnitName } from "../strategies.ts";
import { Failure } from "./failure.tsx";
import type { WithChildren } from "./layout.tsx";

/** The text of a field of a form that is sent, by name; "" for a field that does not exist. */
export type Fields = (name: string) => string;

/** A form with its button. Errors of `onSubmit` are shown below it. */
export function Form({
  submit,
  action,
  onSubmit,
  kind = "primary",
  isInline = false,
  also,
  children,
}: WithChildren & {
  /** The label of its button. */
  readonly submit: string;
  readonly action: Action;
  readonly onSubmit: (fields: Fields) => Promise<void>;
  readonly kind?: "primary" | "danger" | "plain";
  readonly isInline?: boolean;
  /** Further buttons beside it. */
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
  /** Labels by value. */
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
