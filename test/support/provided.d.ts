/** What vitest.config.ts hands to the tests. */
import "vitest";

declare module "vitest" {
  export interface ProvidedContext {
    /** Seed of all random choices. */
    seed: number;
    runs: number;
    /** Recorded exchanges, one JSON object a line. */
    throttrVectors: string;
    /** Recorded exchanges of semaphores, by the form of Dump's entries. */
    yrmcdsVectors: Readonly<Record<"document" | "today", string>>;
  }
}
