// Extracts the picture of a scanned page. Runs only in the probe's child process.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { getDocument, ImageKind, OPS } from "pdfjs-dist/legacy/build/pdf.mjs";

const library = join(dirname(fileURLToPath(import.meta.resolve("pdfjs-dist/package.json"))), "wasm/");

interface Picture {
  width: number;
  height: number;
  kind: number;
  data: Uint8Array | Uint8ClampedArray;
}

/** Minimum width of a picture in pixels. Narrower pictures are symbols and lines. */
const leastWidth = 200;
const mostPixels = 100_000_000;

/** The largest picture on page `number` (from 1), as a PGM file in base64. Null if there is none. */
export async function pictureOf(bytes: Buffer, number: number): Promise<string | null> {
  const document = await getDocument({
    data: new Uint8Array(bytes),
    verbosity: 0,
    useSystemFonts: false,
    disableFontFace: true,
    isOffscreenCanvasSupported: false,
    isImageDecoderSupported: false,
    wasmUrl: library,
  }).promise;
  const page = await document.getPage(number);
  const { fnArray, argsArray } = await page.getOperatorList();
  const pictures: Picture[] = [];
  for (const [index, fn] of fnArray.entries()) {
    if (fn === OPS.paintInlineImageXObject) pictures.push(argsArray[index][0]);
    if (fn !== OPS.paintImageXObject) continue;
    const id = argsArray[index][0] as string;
    const objects = id.startsWith("g_") ? page.commonObjs : page.objs;
    const picture = await new Promise<Picture | null>((resolve) => objects.get(id, resolve));
    if (picture) pictures.push(picture);
  }
  const area = ({ width, height }: Picture): number => width * height;
  const [largest] = pictures
    .filter((picture) => picture.data && picture.width >= leastWidth && area(picture) <= mostPixels)
    .sort((a, b) => area(b) - area(a));
  return largest ? pgm(largest).toString("base64") : null;
}

/** Encodes a picture as Netpbm PGM: width, height, greatest value, then one byte of grey for each pixel. */
function pgm({ width, height, kind, data }: Picture): Buffer {
  const grey = Buffer.alloc(width * height);
  const channels = kind === ImageKind.RGB_24BPP ? 3 : 4;
  const rowBytes = (width + 7) >> 3;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      if (kind === ImageKind.GRAYSCALE_1BPP) grey[at] = (data[y * rowBytes + (x >> 3)]! >> (7 - (x & 7))) & 1 ? 255 : 0;
      // Luma by ITU-R BT.601.
      else
        grey[at] = 0.299 * data[at * channels]! + 0.587 * data[at * channels + 1]! + 0.114 * data[at * channels + 2]!;
    }
  return Buffer.concat([Buffer.from(`P5\n${width} ${height}\n255\n`), grey]);
}
