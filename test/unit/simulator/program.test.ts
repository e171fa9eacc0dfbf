/** Code that many isolates run in one process: what they share, and what each has of its own. */
import { describe, expect, it } from "vitest";
import { programOf, type Exports } from "../../simulator/platform/program.ts";

type Method = (...given: unknown[]) => unknown;

interface Started {
  readonly exports: Record<string, never> & Exports;
  /** Calls an exported function, as an event of the isolate does. */
  readonly call: (name: string, ...given: readonly unknown[]) => unknown;
}

/** Starts isolates of a script. `exported` are getters, as those of a bundle are. */
function isolatesOf(source: string, exported: readonly string[]): (globals?: object) => Started {
  const getters = exported.map((name) => `get ${name}() { return ${name}; }`).join(", ");
  const program = programOf("test", `${source}\nmodule.exports = { ${getters} };`, {
    platform: { Base: Map },
  });
  return (globals = {}) => {
    const instance = program({ seed: 0, ...globals });
    const call = (name: string, ...given: readonly unknown[]): unknown => {
      instance.enter();
      return (instance.exports[name] as Method)(...given);
    };
    return { exports: instance.exports as Started["exports"], call };
  };
}

describe("what isolates of one process share", () => {
  it("functions and classes are the same in each isolate", () => {
    const start = isolatesOf(
      `var { length: unused } = [];
      var platform = require("platform");
      function declared() {}
      var assigned = () => {};
      var Base = class { #hidden = 1; static make() { return new Base(); } };
      var Derived = class extends Base {};
      var Extended = class extends platform.Base {};
      var Failure = class extends Error {};
      var pattern = /x/;`,
      ["declared", "assigned", "Base", "Derived", "Extended", "Failure", "pattern"],
    );
    const [one, other] = [start(), start()];
    for (const [name, value] of Object.entries(one.exports)) {
      expect({ name, isShared: other.exports[name] === value }).toEqual({ name, isShared: true });
    }
  });

  it("whatever may hold a state is another one in each isolate", () => {
    const start = isolatesOf(
      `var map = new Map();
      var list = [];
      var made = Object.create(null);
      var Replaced = class {}; function replace() { Replaced = null; }
      var Counting = class { static count = 0; };
      var Prepared = class { static { this.count = 0; } };
      var Derived = class extends Counting {};
      var Named = class { [map]() {} };
      var Global = class extends Host {};
      var sticky = /x/y;
      var all = /x/g;
      var Alias = Counting;`,
      "map list made Replaced Counting Prepared Derived Named Global sticky all Alias".split(" "),
    );
    const [one, other] = [Map, Set].map((Host) => start({ Host })) as [Started, Started];
    for (const [name, value] of Object.entries(one.exports)) {
      expect({ name, isShared: other.exports[name] === value }).toEqual({ name, isShared: false });
    }
  });
});

describe("variables of an isolate", () => {
  const COUNTER = `var count = 0; var log = []; var [first, { second = 7 }] = [1, {}];
    var step = seed + 1;
    for (const each of [1, 2]) log.push(each);
    function next() { count += step; log.push(count); return count; }
    function swap() { [first, second] = [second, first]; return [first, second]; }
    function read() { return [count, seed, log.length, first, second].join(); }
    var lazily = (() => { let made = 0; return () => ++made; })();`;
  const start = isolatesOf(COUNTER, ["next", "swap", "read", "lazily"]);

  it("an isolate finds its variables as it left them, whatever others have done meanwhile", () => {
    const [one, other] = [start(), start({ seed: 10 })];
    expect([one.call("next"), other.call("next"), one.call("next")]).toEqual([1, 11, 2]);
    expect(one.call("swap")).toEqual([7, 1]);
    expect(other.call("read")).toBe("11,10,3,1,7");
    expect(one.call("read")).toBe("2,0,4,7,1");
    expect([one.call("lazily"), one.call("lazily"), other.call("lazily")]).toEqual([1, 2, 1]);
  });

  it("an isolate that begins within another's turn leaves that one's variables in place", () => {
    const one = start();
    one.call("next");
    const other = start({ seed: 10 });
    const next: Method = one.exports["next"]!;
    expect(next()).toBe(2);
    expect(other.call("next")).toBe(11);
  });

  it("a variable of a module is read as each isolate has it, whichever runs", () => {
    const program = programOf("test", "var count = 0; module.exports = { add: () => ++count };");
    const [one, other] = [program({}), program({})];
    one.enter();
    const add = one.exports["add"] as Method;
    expect([add(), add()]).toEqual([1, 2]);
    expect([one, other].map((isolate) => isolate.valueOf("count"))).toEqual([2, 0]);
    other.enter();
    expect([one, other].map((isolate) => isolate.valueOf("count"))).toEqual([2, 0]);
    expect(one.valueOf("nothing")).toBeUndefined();
  });

  it("globals are those that the isolate has got", () => {
    const now = isolatesOf("var now = () => clock.now();", ["now"]);
    const [one, other] = [5, 6].map((ms) => now({ clock: { now: () => ms } })) as [
      Started,
      Started,
    ];
    expect([one.call("now"), other.call("now"), one.call("now")]).toEqual([5, 6, 5]);
  });
});

describe("code that isolates can't share", () => {
  it.each([
    ["a function that is assigned to", "function f() {} f = null;"],
    ["a property of what may be shared, set by a module", "function f() {} f.count = 0;"],
    ["a statement that declares variables", "for (var i = 0; i < 1; i++) {}"],
    ["a text that is no script", "var = 1;"],
  ])("%s is refused", (_, source) => {
    expect(() => isolatesOf(source, [])()).toThrow(/is assigned to|can't be (split|parsed)/);
  });

  it("a module that the platform does not have is refused", () => {
    expect(() => isolatesOf('var fs = require("fs");', [])()).toThrow("no module fs");
  });
});
