/** Units of dialect 2 by its TTL types: ns, ms, s. Units are those that TTL types 1 to 6 of 7.3 name. */
export const PAIR_UNITS: readonly number[] = [1, 3, 4];
