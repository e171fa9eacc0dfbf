/** The release, as INFO tells it: at most 16 characters. A test keeps it equal to package.json's. */
export const VERSION = "0.5.0";
