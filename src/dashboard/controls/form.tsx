/**
 * Forms and their fields. Fields are uncontrolled: the browser keeps the text, and a form reads all of them when it is
 * sent. So rendering a screen again, each second for its countdowns, never disturbs typing.
 */
import type { Child } from "hono/jsx/dom";
import { useAction } from "../hooks.ts";
import type { Fields, UnitName } from "../strategies.ts";
import { Failure } from "./failure.tsx";
import type { WithChildren } from "./layout.tsx";

/** The fields of a form as they are now. */
export function fieldsOf(form: HTMLFormElement): Fields {
  const fields = new FormData(form);
  return (name) => {
    const value = fields.get(name);
    return typeof value === "string" ? value : "";
  };
}

/** A form with its button. Errors of `onSubmit` are shown below it. */
export function Form({
  submit,
  onSubmit,
  kind = "primary",
  isInline = false,
  also,
  children,
}: WithChildren & {
  /** The label of its button. */
  readonly submit: string;
  readonly onSubmit: (fields: Fields) => Promise<void>;
  readonly kind?: "primary" | "danger" | "plain";
  readonly isInline?: boolean;
  /** Further buttons beside it. */
  readonly also?: Child;
}) {
  const action = useAction();
  const send = (event: Event): void => {
    event.preventDefault();
    const fields = fieldsOf(event.currentTarget as HTMLFormElement);
    action.run(() => onSubmit(fields));
  };
  return (
    <form class={isInline ? "form inline" : "form"} onSubmit={send} novalidate>
      {children}
      <div class="form-actions">
        <button
          class={`button ${kind}`}
          type="submit"
          aria-disabled={action.isBusy ? "true" : null}
        >
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
}

export function Field({ label, hint, isMono = false, isNumber = false, ...input }: FieldProps) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <input
        class={isMono ? "mono" : ""}
        inputmode={isNumber ? "decimal" : "text"}
        autocomplete="off"
        autocapitalize="off"

        {...input}
      />
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </label>
  );
}

/** A field of several lines. */
export function Area({
  label,
  hint,
  ...area
}: Pick<FieldProps, "label" | "name" | "value" | "hint"> & { readonly rows: number }) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <textarea class="mono" {...area} />
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
        options={UNIT_LABELS}
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
