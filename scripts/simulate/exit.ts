/** How `npm run simulate` ends. */

/** A promise was broken, or a fault that must happen did not. */
export const EXIT_VIOLATION = 1;
export const EXIT_USAGE = 2;
