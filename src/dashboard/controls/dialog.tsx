/**
 * Windows above the page. They are modal `<dialog>` elements: the browser keeps the focus inside, closes them with Escape,
 * and gives the focus back to the button that opened them.
 */
import { useRef } from "hono/jsx/dom";
import { useEffect } from "../effect.ts";
import { Button } from "./button.tsx";
import { Form } from "./form.tsx";
import type { WithChildren } from "./layout.tsx";

/** A window in the middle of the page, or a drawer along its side. Escape and a press beside it close it. */
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
        if (event.target === dialog.current && isBeside(event as MouseEvent)) close();
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

/** A press on the scroll bar of a window has the window as its target, as one beside it has. */
function isBeside({ target, clientX, clientY }: MouseEvent): boolean {
  const { left, right, top, bottom } = (target as Element).getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

/** Asks before a change that cannot be undone. */
export function Confirm({
  title,
  submit,
  onConfirm,
  onClose,
  children,
}: WithChildren & {
  readonly title: string;
  readonly submit: string;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit={submit}
        kind="danger"
        onSubmit={onConfirm}
        also={<Button label="Cancel" onPress={onClose} />}
      >
        <div class="prose">{children}</div>
      </Form>
    </Dialog>
  );
}
