/** The Chromium that is installed on this machine: for tests of the dashboard, and for pictures of it. */
import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

/** Path of the browser: the variable `CHROMIUM`, else the usual places; undefined when Chromium is not installed. */
export const CHROMIUM = [
  process.env.CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => path !== undefined && existsSync(path));

/** @throws Error when Chromium is not installed */
export async function launchChromium(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error("no Chromium here: CHROMIUM=… names one");
  return await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
