/** Text in UTF-8, as it was encoded: a byte order mark at its beginning stays. */

const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

export const decodeText = (bytes: Uint8Array): string => decoder.decode(bytes);
