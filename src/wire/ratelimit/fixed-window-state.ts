/**
 * States of fixed windows: `23|N|name|count|start|…`, N from 1 to 8, starts int64 ns since the epoch.
 *
 * The library writes windows without a name, or two of one name, where quotas were added while a state
 * lived. Those without a name are left out, and of two the last one counts, as in the library.
 *
 * Versions 1 and 2 had one window without a name, version 1 with its length behind, ns: that window
 * belongs to the first quota of the configuration.
 */
import { isName } from "./keys.ts";
import { readCount, readInt64 } from "./numbers.ts";
import { configuredForm, endedForm, readState, type Codec, type Form } from "./state.ts";

export interface CountedWindow {
  /** Of its quota. */
  readonly name: string;
  /** The count, 0 to 2^53 - 1. */
  readonly count: number;
  readonly startNs: bigint;
}

const WINDOWS_MAX = 8;
/** Name, count, start. */
const WINDOW_FIELDS = 3;

const current: Form<readonly CountedWindow[]> = {
  fields: "N|name|count|start|…",
  read: ([size = "", ...fields]) => {
    const count = readCount(size);
    if (count === null || count < 1 || count > WINDOWS_MAX) return null;
    if (fields.length !== count * WINDOW_FIELDS) return null;
    const windows = new Map<string, CountedWindow>();
    for (let i = 0; i < fields.length; i += WINDOW_FIELDS) {
      const window = windowOf(fields[i]!, fields[i + 1]!, fields[i + 2]!);
      if (window === null) return null;
      if (window.name !== "") windows.set(window.name, window);
    }
    return [...windows.values()];
  },
};

/** @param name empty for a window that belongs to no quota */
function windowOf(name: string, countText: string, startText: string): CountedWindow | null {
  const count = readCount(countText);
  const startNs = readInt64(startText);
  const isKnown = name === "" || isName(name);
  return count === null || startNs === null || !isKnown ? null : { name, count, startNs };
}

/** @param firstQuota name of the first quota, whose the window of an old state is */
export function fixedWindowCodec(firstQuota: string): Codec<readonly CountedWindow[]> {
  const single: Form<readonly CountedWindow[]> = {
    fields: "count|start",
    read: (fields) => {
      const window = fields.length === 2 ? windowOf(firstQuota, fields[0]!, fields[1]!) : null;
      return window === null ? null : [window];
    },
  };
  const second = endedForm(single);
  const first = configuredForm(single, ["length"], readInt64);
  const forms = new Map([
    ["23", current],
    ["22", second],
    ["21", first],
    ["v2", second],
    ["v1", first],
  ]);
  return {
    encode: (windows) => {
      let text = `23|${windows.length}`;
      for (const { name, count, startNs } of windows) text += `|${name}|${count}|${startNs}`;
      return text;
    },
    decode: (text) => readState("fixed_window", forms, text),
  };
}
