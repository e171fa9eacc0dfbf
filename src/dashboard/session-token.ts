/**
 * Where the token of this tab is kept, for the dashboard and for the API reference: in sessionStorage. It ends with the
 * tab, and other tabs and other origins never see it.
 */

const ITEM = "throttr-token";

export const readToken = (): string | null => sessionStorage.getItem(ITEM);
export const forgetToken = (): void => sessionStorage.removeItem(ITEM);

/** @param token null forgets the one before */
export function keepToken(token: string | null): void {
  if (token === null) forgetToken();
  else sessionStorage.setItem(ITEM, token);
}
