/** How `npm run simulate` ends. */

/** A promise was broken, a fault that must happen did not, or too many runs could not be judged. */
export const EXIT_VIOLATION = 1;
export const EXIT_USAGE = 2;
