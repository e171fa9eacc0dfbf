/**
 * The drawer of a record: its value and TTL, and forms that change or remove it.
 *
 * It reads the record itself instead of taking it from the list: values are not listed, and a link opens it without a list.
 * The kind may have changed meanwhile, or the record may be gone.
 */
import { useState, type Child } from "hono/jsx/dom";
import type { BufferRecord, ChangeName, CounterRecord } from "../../client/index.ts";
import { ThrottrError } from "../../client/index.ts";
import {
  Area,
  Button,
  Choice,
  Confirm,
  Copy,
  Countdown,
  Dialog,
  Empty,
  Facts,
  Field,
  Form,
  Loading,
  Switch,
  TimeFields,
} from "../controls/index.ts";
import { formatBytes, formatCount, formatMoment } from "../format.ts";
import { notify, useLoaded } from "../hooks.ts";
import { limiterStateOf, type LimiterState } from "../limiter-state.ts";
import { losesEnds, withEndsOf } from "../line-ends.ts";
import { learnClock } from "../server-clock.ts";
import { lacksScope, type Session } from "../session.ts";
import { integerOf, ttlOf, type Fields } from "../strategies.ts";
import { formsOf, nameText, utf8Of, valueIn, type ValueForm } from "../value-text.ts";

type Kind = "counter" | "buffer";

/** A record of either kind, or none where it is gone. */
type Opened =
  | ({ readonly kind: "counter" } & CounterRecord)
  | ({ readonly kind: "buffer" } & BufferRecord)
  | null;

interface RecordProps {
  readonly session: Session;
  readonly recordKey: Uint8Array;
  /** Its kind when it was listed. It is read as the other kind when that has changed. */
  readonly kind: Kind;
  readonly onClose: () => void;
  /** It was changed, or is gone. */
  readonly onChange: () => void;
}

export function RecordDialog({ session, recordKey, kind, onClose, onChange }: RecordProps) {
  const isWritable = !lacksScope(session, "write");
  const [isPurging, setPurging] = useState(false);
  const opened = useLoaded(
    async (signal) => ({ record: await open(session, recordKey, kind, signal) }),
    [session, recordKey],
  );
  const changed = (text: string): void => {
    notify(text);
    opened.reload();
    onChange();
  };
  const part = { session, recordKey, onChange: changed };
  const name = nameText(recordKey);
  return (
    <Dialog title={name} onClose={onClose} isDrawer>
      <Loading of={opened} rows={6}>
        {({ record }) =>
          record === null ? (
            <Empty title="This record is gone">It has expired, or it was removed.</Empty>
          ) : (
            <div class="stack">
              {record.kind === "counter" ? (
                <p class="hero figure">
                  <span class="unseen">Quota: </span>
                  {formatCount(record.quota)}
                </p>
              ) : null}
              <Facts facts={factsOf(record)} />
              {record.kind === "counter" ? (
                isWritable ? (
                  <QuotaForm {...part} />
                ) : null
              ) : (
                <ValueSection {...part} record={record} />
              )}
              {isWritable ? (
                <>
                  <TtlForm {...part} />
                  <section class="part">
                    <h3>Remove</h3>
                    <Button
                      label="Purge this record"
                      icon="remove"
                      kind="danger"
                      onPress={() => setPurging(true)}
                    />
                  </section>
                </>
              ) : null}
            </div>
          )
        }
      </Loading>
      {isPurging ? (
        <Confirm
          title="Purge this record?"
          submit="Purge"
          onClose={() => setPurging(false)}
          onConfirm={async () => {
            const isRemoved = await session.throttr.purge(recordKey);
            notify(isRemoved ? `Purged ${name}` : `${name} no longer existed`);
            onChange();
            onClose();
            // The button that opened this window may be gone with the record.
            document.getElementById("screen-title")?.focus();
          }}
        >
          <p>
            <code>{name}</code> is removed for all clients at once. This cannot be undone.
          </p>
        </Confirm>
      ) : null}
    </Dialog>
  );
}

/** A buffer that a limiter has written is a limit, as in the list: its size says nothing. */
function factsOf(record: NonNullable<Opened>): readonly (readonly [name: string, value: Child])[] {
  const isLimit = record.kind === "buffer" && limiterStateOf(record.value) !== null;
  const kind = isLimit ? "limit" : record.kind;
  const left = <Countdown untilMs={record.expiresAtMs} />;
  return [
    ["Kind", <span class={`badge ${kind}`}>{kind}</span>],
    // A limit without a record is whole: what its strategy allows at most.
    [isLimit ? "Resets in at most" : "Time left", left],
    ["Expires", formatMoment(record.expiresAtMs)],
    ...(record.kind === "buffer" && !isLimit
      ? [["Size", formatBytes(record.value.length)] as const]
      : []),
  ];
}

/** Reads a record as the kind that it was, or has become. */
async function open(
  { throttr }: Session,
  key: Uint8Array,
  kind: Kind,
  signal: AbortSignal,
): Promise<Opened> {
  try {
    const record = await read(kind);
    if (record !== null) learnClock(record.expiresAtMs - record.ttlMs);
    return record;
  } catch (error) {
    if (ThrottrError.from(error).code !== "kind_mismatch") throw error;
    return await read(kind === "counter" ? "buffer" : "counter");
  }

  async function read(as: Kind): Promise<Opened> {
    if (as === "counter") {
      const counter = await throttr.query(key, { signal });
      return counter === null ? null : { kind: as, ...counter };
    }
    const buffer = await throttr.get(key, { signal });
    return buffer === null ? null : { kind: as, ...buffer };
  }
}

interface PartProps {
  readonly session: Session;
  readonly recordKey: Uint8Array;
  readonly onChange: (text: string) => void;
}

const GONE = new ThrottrError("key_absent", "the record is gone");

function QuotaForm({ session: { throttr }, recordKey, onChange }: PartProps) {
  const change = async (fields: Fields): Promise<void> => {
    const amount = integerOf(fields, "amount");
    const outcome = await throttr[fields("how") as ChangeName](recordKey, amount);
    if (outcome === null) throw GONE;
    if (!outcome.applied) {
      throw new ThrottrError(
        "not_applied",
        `the result would be outside 0 to 2^64 - 1: the quota stays ${outcome.quota}`,
      );
    }
    onChange(`The quota is now ${formatCount(outcome.quota)}`);
  };
  return (
    <section class="part">
      <h3>Change quota</h3>
      <Form submit="Change quota" onSubmit={change}>
        <div class="pair">
          <Choice
            label="How"
            name="how"
            value="patch"
            options={{ patch: "Set to", increase: "Add", decrease: "Subtract" }}
          />
          <Field label="Amount" name="amount" isNumber placeholder="0 to 2^64 - 1" />
        </div>
      </Form>
    </section>
  );
}

function TtlForm({ session: { throttr }, recordKey, onChange }: PartProps) {
  const change = async (fields: Fields): Promise<void> => {
    const ttlMs = ttlOf(fields);
    const options = { ttlMs, change: fields("how") as ChangeName };
    const remaining = await throttr.ttl(recordKey, options);
    onChange(
      remaining === null
        ? "The record has expired"
        : `It expires ${formatMoment(remaining.expiresAtMs)}`,
    );
  };
  return (
    <section class="part">
      <h3>Change TTL</h3>
      <Form submit="Change TTL" onSubmit={change}>
        <Choice
          label="How"
          name="how"
          value="patch"
          options={{ patch: "From now", increase: "Longer by", decrease: "Shorter by" }}
        />
        <TimeFields label="Time" name="ttl" unitName="unit" value="1" unit="h" />
      </Form>
    </section>
  );
}

function ValueSection({ record, ...part }: PartProps & { readonly record: BufferRecord }) {
  // As it was when the form was opened: another form of the window reads the record again, and must not change what is typed here.
  const [edited, setEdited] = useState<BufferRecord | null>(null);
  if (edited !== null) {
    return (
      <ValueForm
        {...part}
        record={edited}
        onChange={(text) => {
          setEdited(null);
          part.onChange(text);
        }}
        onCancel={() => setEdited(null)}
      />
    );
  }
  const isWritable = !lacksScope(part.session, "write");
  return <ValueView record={record} onEdit={isWritable ? () => setEdited(record) : null} />;
}

const FORM_NAMES: Readonly<Record<ValueForm | "limiter", string>> = {
  limiter: "Limiter",
  json: "JSON",
  text: "Text",
  hex: "Hex",
};

function ValueView({
  record: { value },
  onEdit,
}: {
  readonly record: BufferRecord;
  /** Null where the token does not allow it. */
  readonly onEdit: (() => void) | null;
}) {
  const text = utf8Of(value);
  const state = limiterStateOf(value);
  const forms: readonly (ValueForm | "limiter")[] =
    state === null ? formsOf(value) : ["limiter", ...formsOf(value)];
  const [chosen, setChosen] = useState<ValueForm | "limiter" | null>(null);
  const form = chosen !== null && forms.includes(chosen) ? chosen : forms[0]!;
  const shown = form === "limiter" ? null : valueIn(form, value);
  return (
    <section class="part">
      <header class="part-head">
        <h3>Value</h3>
        <Switch
          label="Shown as"
          value={form}
          options={forms.map((name) => [name, FORM_NAMES[name]] as const)}
          onChoice={setChosen}
        />
      </header>
      {shown === null ? (
        <LimiterFields state={state!} />
      ) : (
        <pre class="value" tabindex={0} aria-label="Value">
          {value.length === 0 ? "(empty)" : shown.text}
        </pre>
      )}
      {shown?.isCut === true ? <p class="hint">Only the beginning is shown.</p> : null}
      <div class="form-actions">
        {onEdit === null ? null : <Button label="Change value" onPress={onEdit} />}
        {text === null ? null : <Copy text={text} label="Copy value" />}
      </div>
    </section>
  );
}

function LimiterFields({ state }: { readonly state: LimiterState }) {
  return (
    <div class="limiter-state">
      <p class="badge">{state.strategy}</p>
      <Facts
        facts={state.fields.map((field): readonly [string, Child] => [
          field.label,
          "text" in field ? <span class="figure">{field.text}</span> : formatMoment(field.atMs),
        ])}
      />
      <p class="hint">
        A record stores only the state of a limit. The limits and rates come from the application
        that checks it. Units that callers have drawn as allowances count as spent, even before they
        spend them.
      </p>
    </div>
  );
}

const NOT_TEXT = "The current value is not text. Saving replaces all of it.";
const ENDS_LOST =
  "The lines of this value end neither all with LF nor all with CRLF. A changed value has LF only.";

/** Saves a value only if the record still holds the value that was read. */
function ValueForm({
  session: { throttr },
  recordKey,
  record,
  onChange,
  onCancel,
}: PartProps & { readonly record: BufferRecord; readonly onCancel: () => void }) {
  const text = utf8Of(record.value);
  const hint = text === null ? NOT_TEXT : losesEnds(text) ? ENDS_LOST : null;
  const set = async (fields: Fields): Promise<void> => {
    const { applied } = await throttr.compareAndSet(recordKey, {
      expected: record.value,
      value: text === null ? fields("value") : withEndsOf(text, fields("value")),
      ttlMs: ttlOf(fields),
    });
    if (!applied) {
      throw new ThrottrError(
        "changed_meanwhile",
        "another client changed the value; cancel and refresh to see the new one",
      );
    }
    onChange("Value saved");
  };
  return (
    <section class="part">
      <h3>Change value</h3>
      <Form submit="Save" onSubmit={set} also={<Button label="Cancel" onPress={onCancel} />}>
        <Area
          label="Value"
          name="value"
          rows={8}
          value={text ?? ""}
          {...(hint === null ? {} : { hint })}
        />
        <TimeFields
          label="TTL"
          name="ttl"
          unitName="unit"
          value={String(Math.max(1, Math.ceil(record.ttlMs / 1000)))}
          unit="s"
        />
      </Form>
    </section>
  );
}
