/** Buttons. */
import { useState } from "hono/jsx/dom";
import { notify } from "../hooks.ts";
import { Icon, type IconName } from "../icons.tsx";

interface ButtonProps {
  readonly label: string;
  readonly onPress: () => void;
  readonly icon?: IconName;
  readonly kind?: "plain" | "primary" | "danger";
  /** Only the icon is seen; the label is its name. */
  readonly isBare?: boolean;
  /** It can't be pressed for a moment, and keeps the focus meanwhile. */
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
      disabled={disabled}
      aria-disabled={isBusy ? "true" : null}
      {...(isBare ? { "aria-label": label } : {})}
      title={isBare ? label : ""}
      onClick={() => {
        if (!isBusy) onPress();
      }}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      {isBare ? null : <span>{label}</span>}
    </button>
  );
}

/** An ID that can be copied; a shortened one has all of it in its title. */
export function CopiedId({ id, shown = id }: { readonly id: string; readonly shown?: string }) {
  return (
    <span class="with-button">
      <code title={id}>{shown}</code>
      <Copy text={id} label="Copy ID" />
    </span>
  );
}

/** @throws where the page may not copy; an insecure origin has no clipboard at all */
async function copyText(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
}

/** A button that copies a text to the clipboard. */
export function Copy({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    copyText(text).then(
      () => {
        setCopied(true);
        setTimeout(() => setCopied(false), 1500);
      },
      () => notify("The browser copies only for pages of HTTPS or localhost that may do so"),
    );
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
