/** Numbers as a run says them. */

export const count = (value: number): string => Math.round(value).toLocaleString("en-US");

export const percent = (share: number): string =>
  `${(share * 100).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`;

/** Bytes in MiB. */
export const mebibytes = (bytes: number): string => (bytes / (1 << 20)).toFixed(1);
