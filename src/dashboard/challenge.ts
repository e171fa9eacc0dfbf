/** How a server wants to be signed in to: by a token, or by a session of the application that it is part of alone. */

let isByToken = true;

/** Learns it from the challenge of a 401. */
export function learnChallengeOf({ status, headers }: Response): void {
  if (status === 401) isByToken = !/^Session\b/.test(headers.get("www-authenticate") ?? "");
}

/** Whether the server can check tokens, as far as is known. */
export const takesTokens = (): boolean => isByToken;
