// Compresses what Vite built into `built/`, which the program embeds. With --check compares instead: the committed files
// must hold the bytes of a rebuild. Compressors differ between versions, so bytes are compared after decompression.
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

const FILES = ["index.html", "assets/page.js", "assets/page.css"];
const MAX_BYTES = 60 * 1024;

const isCheck = process.argv.includes("--check");
mkdirSync("built", { recursive: true });
let total = 0;
for (const file of FILES) {
  const bytes = readFileSync(`dist/${file}`);
  const packed = `built/${file.split("/").pop()}.gz`;
  if (isCheck) {
    if (!gunzipSync(readFileSync(packed)).equals(bytes)) {
      console.error(`${packed} is not what the sources build to: run \`npm run build\` and commit it`);
      process.exit(1);
    }
  } else {
    writeFileSync(packed, gzipSync(bytes, { level: 9 }));
  }
  const size = readFileSync(packed).length;
  total += size;
  console.log(`${packed}: ${size} bytes`);
}
console.log(`${total} of at most ${MAX_BYTES} bytes`);
if (total > MAX_BYTES) process.exit(1);
