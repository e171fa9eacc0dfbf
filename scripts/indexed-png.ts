/**
 * Writes pixels as a PNG with a palette.
 *
 * Source: PNG specification (third edition), 11.2: IHDR, PLTE, IDAT, IEND; colour type 3.
 */
import { crc32, deflateSync } from "node:zlib";

const COLOURS_MAX = 256;
const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** @param rgba four bytes a pixel; what is transparent is not kept so */
export function indexedPng({ width, rgba }: { width: number; rgba: Uint8Array }): Buffer {
  const palette = paletteOf(rgba);
  const height = rgba.length / 4 / width;
  const nearest = new Map<number, number>();
  // Each row begins with its filter: none, as neighbours in a palette say nothing of each other.
  const rows = new Uint8Array((width + 1) * height);
  for (let i = 0; i < width * height; i++) {
    const colour = colourAt(rgba, i * 4);
    let index = nearest.get(colour);
    if (index === undefined) nearest.set(colour, (index = nearestOf(colour, palette)));
    rows[Math.floor(i / width) * (width + 1) + 1 + (i % width)] = index;
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3], 8);
  const colours = Uint8Array.from(
    palette.flatMap((rgb) => [rgb >> 16, (rgb >> 8) & 255, rgb & 255]),
  );
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", new Uint8Array()),
  ]);
}

const colourAt = (rgba: Uint8Array, at: number): number =>
  (rgba[at]! << 16) | (rgba[at + 1]! << 8) | rgba[at + 2]!;

/** The colours that most pixels have. */
function paletteOf(rgba: Uint8Array): number[] {
  const counts = new Map<number, number>();
  for (let at = 0; at < rgba.length; at += 4) {
    const colour = colourAt(rgba, at);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const frequent = [...counts].toSorted(([, one], [, other]) => other - one);
  return frequent.slice(0, COLOURS_MAX).map(([colour]) => colour);
}

function nearestOf(colour: number, palette: readonly number[]): number {
  let best = 0;
  let least = Infinity;
  for (const [index, other] of palette.entries()) {
    const red = (colour >> 16) - (other >> 16);
    const green = ((colour >> 8) & 255) - ((other >> 8) & 255);
    const blue = (colour & 255) - (other & 255);
    const distance = red * red + green * green + blue * blue;
    if (distance >= least) continue;
    best = index;
    least = distance;
  }
  return best;
}

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(body, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}
