/** Keyspaces keep apart what different protocols call a key. Part of the stored formats: 0 to 15. */
export const Keyspace = { throttr: 0, throttrPairs: 1 } as const;
