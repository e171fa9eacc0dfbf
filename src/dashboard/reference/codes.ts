/**
 * Leads from `/docs#key_absent`, the `type` of a problem, to the row of that code in the table of errors.
 *
 * The table is text of the OpenAPI document, which Scalar renders without anchors for its rows.
 */

/** How long the table may take to be on the page. */
const TIMEOUT_MS = 30_000;

/** The code that a hash names; null for every other hash, which is Scalar's. */
export const codeOf = (hash: string): string | null => /^#([a-z_]+)$/.exec(hash)?.[1] ?? null;

/** Scrolls to the code that a hash names, and says so in the address. */
export async function showCode(hash: string): Promise<void> {
  const code = codeOf(hash);
  if (code === null) return;
  const row = await found(() => rowOf(code));
  if (row === null) return;
  history.replaceState(null, "", hash);
  document.querySelector("tr.shown")?.classList.remove("shown");
  row.classList.add("shown");
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "center" });
}

function rowOf(code: string): HTMLTableRowElement | null {
  for (const row of document.querySelectorAll("tr")) {
    if (row.cells[0]?.textContent.trim() === code) return row;
  }
  return null;
}

/** Looks again whenever the page changes, until it finds something; null if that takes too long. */
function found<Found>(look: () => Found | null): Promise<Found | null> {
  return new Promise((resolve) => {
    const end = (result: Found | null): void => {
      observer.disconnect();
      clearTimeout(timer);
      resolve(result);
    };
    const observer = new MutationObserver(() => {
      const result = look();
      if (result !== null) end(result);
    });
    const timer = setTimeout(() => end(null), TIMEOUT_MS);
    observer.observe(document.body, { childList: true, subtree: true });
    const result = look();
    if (result !== null) end(result);
  });
}
