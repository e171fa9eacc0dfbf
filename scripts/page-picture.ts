/** Pictures of pages for the documents: PNG files with a palette of 256 colours. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { indexedPng } from "./indexed-png.ts";
import { ROOT } from "./server.ts";

/** Where the documents find them. */
export const PICTURES_FOLDER = join(ROOT, "docs/images");

/** Takes a picture of a page, once all of it is there. */
export async function take(page: Page, name: string): Promise<void> {
  // What is loaded after the page is there: notes, fonts, and the drawer's content.
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
  await page.waitForTimeout(1500);
  const screenshot = await page.screenshot();
  const png = indexedPng(await pixelsOf(page, screenshot));
  writeFileSync(join(PICTURES_FOLDER, `${name}.png`), png);
  console.log(`${name}.png ${png.length} bytes`);
}

/** The pixels of a PNG: the browser decodes it. A page of its own, as the dashboard's policy allows no such image. */
async function pixelsOf(page: Page, png: Buffer): Promise<{ width: number; rgba: Uint8Array }> {
  const blank = await page.context().newPage();
  const { width, base64 } = await blank.evaluate(
    async (source) => {
      const bitmap = await createImageBitmap(await (await fetch(source)).blob());
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
      const context = canvas.getContext("2d")!;
      context.drawImage(bitmap, 0, 0);
      const { data, width: rowPixels } = context.getImageData(0, 0, bitmap.width, bitmap.height);
      const parts: string[] = [];
      for (let at = 0; at < data.length; at += 8192) {
        parts.push(String.fromCharCode(...data.subarray(at, at + 8192)));
      }
      return { width: rowPixels, base64: btoa(parts.join("")) };
    },
    `data:image/png;base64,${png.toString("base64")}`,
  );
  await blank.close();
  return { width, rgba: Buffer.from(base64, "base64") };
}
