/**
 * Faults to be planted in the production code, one at a time: what the simulator must find. Each is what a tired person might write, or
 * leave out.
 */

export interface PlantedFault {
  readonly name: string;
  /** Path of the module, from the root of the project. */
  readonly module: string;
  /** Must be in the module exactly once. */
  readonly text: string;
  /** What takes its place. */
  readonly planted: string;
}

export const PLANTED: readonly PlantedFault[] = [
  {
    name: "a reply before the commit",
    module: "src/objects/shard/group-commit.ts",
    text: "if (this.#isStrict && !isRelaxed) await this.#flushNow();",
    planted: "if (this.#isStrict && !isRelaxed) void this.#flushNow();",
  },
];
