/** The window that creates a record. It never replaces one that exists. */
import { useState } from "hono/jsx/dom";
import { ThrottrError } from "../../client/index.ts";
import { Area, Dialog, Field, Form, Switch, TimeFields } from "../controls/index.ts";
import { notify } from "../hooks.ts";
import { lacksScope, type Session } from "../session.ts";
import { integerOf, ttlOf, type Fields } from "../strategies.ts";

export function NewRecord({
  session,
  prefix,
  onClose,
  onCreated,
}: {
  readonly session: Session;
  /** The key begins with it, as a proposal. */
  readonly prefix: string;
  readonly onClose: () => void;
  readonly onCreated: () => void;
}) {
  const { throttr } = session;
  const [kind, setKind] = useState<"counter" | "buffer">("counter");
  const create = async (fields: Fields): Promise<void> => {
    const key = fields("key");
    if (key === "") {
      throw new ThrottrError("key_missing", "enter a key");
    }
    const ttlMs = ttlOf(fields);
    const isCreated =
      kind === "counter"
        ? await throttr.insert(key, { quota: integerOf(fields, "quota"), ttlMs })
        : // SET would replace a record that exists: this refuses.
          (await throttr.compareAndSet(key, { expected: null, value: fields("value"), ttlMs }))
            .applied;
    if (!isCreated) {
      throw new ThrottrError(
        "exists",
        "a record with this key already exists; nothing was changed",
      );
    }
    notify(`Created ${key}`);
    onCreated();
    onClose();
  };
  return (
    <Dialog title="New record" onClose={onClose}>
      <Form submit="Create" onSubmit={create}>
        {/* Creating a buffer also reads whether one exists. */}
        {lacksScope(session, "read") ? null : (
          <Switch
            label="Kind"
            value={kind}
            options={[
              ["counter", "Counter"],
              ["buffer", "Buffer"],
            ]}
            onChoice={setKind}
          />
        )}
        <Field label="Key" name="key" value={prefix} isMono autofocus hint="1 to 255 bytes" />
        {kind === "counter" ? (
          <Field key="quota" label="Quota" name="quota" value="0" isNumber hint="0 to 2^64 - 1" />
        ) : (
          <Area key="value" label="Value" name="value" rows={6} />
        )}
        <TimeFields label="TTL" name="ttl" unitName="unit" value="1" unit="h" />
      </Form>
    </Dialog>
  );
}
