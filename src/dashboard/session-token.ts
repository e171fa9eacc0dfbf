/**
 * Where the token of this tab is kept, for the dashboard and for the API reference: in sessionStorage. It ends with the
 * tab, and other tabs and other origins never see it.
 */

import { keepItem, readItem } from "./storage.ts";

const ITEM = "throttr-token";

export const readToken = (): string | null => readItem("sessionStorage", ITEM);

/** @param token null forgets the one before */
export const keepToken = (token: string | null): void => keepItem("sessionStorage", ITEM, token);
export const forgetToken = (): void => keepToken(null);
