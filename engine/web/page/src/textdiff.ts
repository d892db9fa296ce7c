// Which lines of two texts are in one of them only.

export interface Line {
  text: string;
  isOwn: boolean;
}

/** Longer texts are not compared line by line: the table below grows with the product of their lines. */
const MAX_LINES = 600;

/** The lines of both texts; those outside of their longest common subsequence are own ones. */
export function linesOf(a: string, b: string): [Line[], Line[]] {
  const [left, right] = [a.split("\n"), b.split("\n")];
  const plain = (lines: string[], other: string): Line[] => lines.map((text) => ({ text, isOwn: a !== b && !other.includes(text) }));
  if (left.length > MAX_LINES || right.length > MAX_LINES) return [plain(left, b), plain(right, a)];
  const width = right.length + 1;
  // At [i, j]: the length of the longest common subsequence of the lines from i and from j on.
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      lengths[at] = left[i] === right[j] ? lengths[at + width + 1]! + 1 : Math.max(lengths[at + width]!, lengths[at + 1]!);
    }
  }
  const [ours, theirs]: [Line[], Line[]] = [[], []];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      ours.push({ text: left[i]!, isOwn: false });
      theirs.push({ text: right[j]!, isOwn: false });
      i += 1;
      j += 1;
    } else if (j >= right.length || (i < left.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) {
      ours.push({ text: left[i]!, isOwn: true });
      i += 1;
    } else {
      theirs.push({ text: right[j]!, isOwn: true });
      j += 1;
    }
  }
  return [ours, theirs];
}
