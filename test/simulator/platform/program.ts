/**
 * Code that many isolates of one process run, each with a state of its own.
 *
 * V8 makes fast code for the objects of one set of classes. Were the text evaluated anew for each isolate, there would be as many
 * sets, and hardly any code were fast. So functions and classes are evaluated once; what modules keep in variables is evaluated
 * for each isolate, and put in place before the isolate's turn.
 */
import { Script } from "node:vm";
import { split } from "./split.ts";

/** Values by the names of globals. */
export type Globals = Readonly<Record<string, unknown>>;

/** What a module exports. */
export type Exports = Readonly<Record<string, unknown>>;

/** The code in one isolate. */
export interface Instance {
  readonly exports: Exports;
  /** Puts the isolate's variables in place. To be called before its code runs, and whenever another isolate may have run since. */
  enter(): void;
  /** The present value of a variable of one of its modules; undefined where none has the name. */
  valueOf(name: string): unknown;
}

/** Starts the code in an isolate. All isolates get the same globals by name, each with values of its own. */
export type Program = (globals: Globals) => Instance;

/** The text as it is evaluated: once in a process. */
interface Evaluated {
  /** Gives all variables their first values, and returns these. */
  begin(module: { exports: Exports }, globals: readonly unknown[]): unknown[];
  save(values: unknown[]): void;
  load(values: readonly unknown[]): void;
  /** Of the variables, in the order of their values. */
  readonly names: readonly string[];
}

/**
 * @param name of the code, for stack traces
 * @param source a script whose modules share one scope, as esbuild writes it
 * @param modules that it requires, by name
 */
export function programOf(
  name: string,
  source: string,
  modules: Readonly<Record<string, object>> = {},
): Program {
  const require = (path: string): object => {
    const found = modules[path];
    if (found === undefined) throw new Error(`the simulator has no module ${path}`);
    return found;
  };
  let names: readonly string[] = [];
  let code: Evaluated | null = null;
  let present: unknown[] | null = null;
  /** Puts values in the place of the present ones, which it remembers. */
  const enter = (values: unknown[]): void => {
    if (present === values) return;
    if (present !== null) code!.save(present);
    present = values;
    code!.load(values);
  };
  return (globals) => {
    if (code === null) {
      names = Object.keys(globals);
      code = evaluate(name, source, names, require);
    }
    const before = present;
    if (before !== null) code.save(before);
    const module: { exports: Exports } = { exports: {} };
    const values = code.begin(
      module,
      names.map((each) => globals[each]),
    );
    // Exports are getters of variables, which are those of another isolate later.
    const exports = { ...module.exports };
    present = values;
    // It may begin within another one's turn.
    if (before !== null) enter(before);
    const valueOf = (variable: string): unknown => {
      if (present === values) code!.save(values);
      return values[code!.names.indexOf(variable)];
    };
    return { exports, enter: () => enter(values), valueOf };
  };
}

function evaluate(
  name: string,
  source: string,
  globals: readonly string[],
  require: (path: string) => object,
): Evaluated {
  const { shared, own, variables, reassigned } = split(source, globals);
  const all = [...globals, ...variables];
  const text = `(function (require) { "use strict";
var module, exports, ${all.join(", ")};
${shared}
return {
begin($module, $globals) {
module = $module; exports = module.exports;
${globals.map((each, i) => `${each} = $globals[${i}];`).join("\n")}
${own}
return [${all.join(", ")}];
},
save($values) {
${reassigned.map((each) => `$values[${all.indexOf(each)}] = ${each};`).join("\n")}
},
load($values) {
${all.map((each, i) => `${each} = $values[${i}];`).join("\n")}
},
};
})`;
  const script = new Script(text, { filename: `${name} (bundled)` });
  const begin = script.runInThisContext() as (load: typeof require) => Omit<Evaluated, "names">;
  return { ...begin(require), names: all };
}
