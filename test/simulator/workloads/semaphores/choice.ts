/** What clients of semaphores choose. */
import type { Random } from "../../kernel/random.ts";

export const NAMES = 5;
export const PREFIX = "semaphores:";
const MAXIMUM = 6;

export const nameOf = (index: number): string => `${PREFIX}${index}`;

export const maximumOf = (random: Random, resources: number): number =>
  Math.max(resources, 1 + random.int(MAXIMUM));

export function leaseIdOf(random: Random): string {
  const hex = Buffer.from(random.bytes(16)).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}
