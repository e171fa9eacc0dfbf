/** Keyspaces keep apart what different protocols call a key. Part of the stored formats: 0 to 15. */
export const Keyspace = {
  throttr: 0,
  throttrPairs: 1,
  /** Answers to commands with an idempotency key. */
  answers: 2,
  /** Semaphores, by name. */
  semaphores: 3,
  /** What connections and leases hold of them. */
  holdings: 4,
  /** Reservations of rate limits. */
  reservations: 5,
} as const;
export type Keyspace = (typeof Keyspace)[keyof typeof Keyspace];
