/** The field that filters the list of a screen; `/` leads to it. */
import { useEffect } from "../effect.ts";
import { useRef } from "hono/jsx/dom";

/** How long a pause in typing ends the text, ms. */
const TYPING_MS = 300;

export function Search({
  id = "filter",
  label,
  placeholder,
  value,
  onText,
}: {
  /** Another one beside the filter of the screen. */
  readonly id?: string;
  readonly label: string;
  readonly placeholder: string;
  /** The text that it begins with. */
  readonly value: string;
  readonly onText: (text: string) => void;
}) {
  const typing = useRef<ReturnType<typeof setTimeout> | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => () => clearTimeout(typing.current ?? undefined), []);
  useEffect(() => {
    // The address may have changed by other means than by typing here.
    if (field.current !== document.activeElement) field.current!.value = value;
  }, [value]);
  return (
    <label class="field search">
      <span class="unseen">{label}</span>
      <input
        ref={field}
        id={id}
        class="mono"
        type="search"
        placeholder={placeholder}
        autocomplete="off"
        autocapitalize="off"
        onInput={(event: Event) => {
          clearTimeout(typing.current ?? undefined);
          const text = (event.target as HTMLInputElement).value;
          typing.current = setTimeout(() => onText(text), TYPING_MS);
        }}
      />
    </label>
  );
}
