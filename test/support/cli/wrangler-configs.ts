/** Configurations of wrangler of any shape, written as a person may have written them: with comments, in any layout. */
import fc from "fast-check";

type Value = string | boolean | readonly Value[] | { readonly [name: string]: Value };
type Table = { readonly [name: string]: Value };

const someDate = fc.constantFrom("2024-09-23", "2025-11-16", "2025-11-17", "2026-10-23");
const someFlags = fc.constantFrom<string[]>(
  [],
  ["nodejs_compat"],
  ["nodejs_compat", "no_web_socket_compression"],
  ["enable_ctx_exports"],
  ["disable_ctx_exports", "nodejs_compat"],
);
const someBindings = fc.constantFrom<Value>(
  { bindings: [{ name: "ROOMS", class_name: "Room" }] },
  { bindings: [] },
  {
    bindings: [
      { name: "ROOMS", class_name: "Room" },
      { name: "THROTTR_HUB", class_name: "Hub" },
    ],
  },
);
const LIFECYCLES: Readonly<Record<string, Table>> = {
  none: {},
  exports: { exports: { Room: { type: "durable-object", storage: "sqlite" } } },
  bare: { exports: {} },
  worker: { exports: { Admin: { type: "worker" } } },
  migrations: { migrations: [{ tag: "v1", new_sqlite_classes: ["Room"] }] },
  several: {
    migrations: [
      { tag: "v1", new_classes: ["Old"] },
      { tag: "throttr-v1", deleted_classes: ["Old"], new_sqlite_classes: ["Room"] },
    ],
  },
};

const without = (fields: object): Table =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Table;

const maybe = <T>(some: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(some, { nil: undefined });

/** A configuration as a value. Its environments say their classes as it does: wrangler refuses both ways at once. */
const configArbitrary: fc.Arbitrary<Table> = fc
  .constantFrom(["none", "exports", "bare", "worker"], ["migrations", "several"])
  .chain((ways) => {
    const scope = fc
      .record({
        compatibility_date: maybe(someDate),
        compatibility_flags: maybe(someFlags),
        durable_objects: maybe(someBindings),
        vars: maybe(fc.constantFrom({ LEVEL: "debug" }, { LEVEL: "info", "odd name": "yes" })),
        way: fc.constantFrom(...ways),
      })
      .map(({ way, ...fields }) => ({ ...without(fields), ...LIFECYCLES[way] }));
    const environment = fc.tuple(scope, fc.boolean()).map(([{ ...fields }, isOwn]) => {
      if (isOwn) return fields as Table;
      const { exports: _exports, migrations: _migrations, ...inherited } = fields as Table;
      return inherited;
    });
    return fc.record({
      top: scope,
      environments: fc.dictionary(fc.constantFrom("staging", "production", "my.env"), environment),
    });
  })
  .map(({ top, environments }) => ({
    name: "app",
    main: "src/index.ts",
    ...top,
    ...(Object.keys(environments).length === 0 ? {} : { env: environments }),
  }));

/** A text of such a configuration, and how to call its file. */
export interface ConfigText {
  readonly file: string;
  readonly text: string;
}

export const configTextArbitrary: fc.Arbitrary<ConfigText> = fc
  .tuple(configArbitrary, fc.boolean(), fc.integer())
  .map(([config, isToml, seed]) => {
    const layout = new Layout(seed);
    const text = isToml ? tomlOf(config, layout) : `${layout.mark}${jsoncOf(config, layout)}`;
    return {
      file: isToml ? "wrangler.toml" : "wrangler.jsonc",
      text: text.replaceAll("\n", layout.newLine),
    };
  });

/** Choices of layout, the same ones for the same seed; comments are numbered. */
class Layout {
  #state: number;
  #comments = 0;
  readonly newLine: string;
  readonly mark: string;
  readonly unit: string;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    this.newLine = this.isChosen(4) ? "\r\n" : "\n";
    this.mark = this.isChosen(8) ? "\uFEFF" : "";
    this.unit = ["  ", "    ", "\t"][this.#below(3)]!;
  }

  /** True once in so many times. */
  isChosen(times: number): boolean {
    return this.#below(times) === 0;
  }

  /** Text of a comment, or nothing. */
  comment(write: (text: string) => string): string {
    return this.isChosen(4) ? write(`note ${++this.#comments}, "{[`) : "";
  }

  /** The steps of `mulberry32`. */
  #below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  }
}

function jsoncOf(value: Value, layout: Layout, indent = ""): string {
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const children = isList
    ? (value as readonly Value[]).map((item) => jsoncOf(item, layout, indent + layout.unit))
    : Object.entries(value).map(
        ([name, entry]) =>
          `${JSON.stringify(name)}: ${jsoncOf(entry as Value, layout, indent + layout.unit)}`,
      );
  const [open, close] = isList ? "[]" : "{}";
  const block = (): string => layout.comment((text) => ` /* ${text} */ `);
  if (indent !== "" && layout.isChosen(3)) {
    const trailing = children.length > 0 && layout.isChosen(3) ? "," : "";
    return `${open}${block()}${children.join(`,${block()} `)}${trailing}${block()}${close}`;
  }
  const inner = indent + layout.unit;
  const own = (): string => layout.comment((text) => `${inner}// ${text}\n`);
  const lines = children.map((child, i) => {
    const comma = i < children.length - 1 || layout.isChosen(3) ? "," : "";
    const late = layout.isChosen(8) ? `\n${inner}` : "";
    return `${own()}${inner}${child}${block()}${late}${comma}${layout.comment((text) => ` // ${text}`)}\n`;
  });
  return `${open}\n${lines.join("")}${own()}${indent}${close}`;
}

const isTable = (value: Value): value is Table =>
  typeof value === "object" && !Array.isArray(value);

const key = (name: string): string => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));

function tomlOf(table: Table, layout: Layout, path: readonly string[] = []): string {
  const own = (): string => layout.comment((text) => `# ${text}\n`);
  const behind = (): string => layout.comment((text) => ` # ${text}`);
  const lines: string[] = [];
  const tables: string[] = [];
  for (const [name, value] of Object.entries(table)) {
    const place = [...path, name].map(key).join(".");
    const items = Array.isArray(value) ? (value as readonly Value[]) : null;
    if (items !== null && items.length > 0 && items.every(isTable) && !layout.isChosen(3)) {
      for (const item of items) {
        tables.push(
          `${own()}\n[[${place}]]${behind()}\n${tomlOf(item as Table, layout, [...path, name])}`,
        );
      }
    } else if (isTable(value) && !layout.isChosen(3)) {
      tables.push(`${own()}\n[${place}]${behind()}\n${tomlOf(value, layout, [...path, name])}`);
    } else {
      lines.push(`${own()}${key(name)} = ${inlineToml(value, layout)}${behind()}\n`);
    }
  }
  return lines.join("") + tables.join("");
}

function inlineToml(value: Value, layout: Layout): string {
  if (Array.isArray(value)) {
    const items = (value as readonly Value[]).map((item) => inlineToml(item, layout));
    if (layout.isChosen(2)) return `[${items.join(", ")}]`;
    const lines = items.map((item) => `  ${item},${layout.comment((text) => ` # ${text}`)}\n`);
    return `[\n${lines.join("")}]`;
  }
  if (!isTable(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(
    ([name, entry]) => `${key(name)} = ${inlineToml(entry, layout)}`,
  );
  return `{ ${entries.join(", ")} }`;
}
