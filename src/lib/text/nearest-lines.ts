interface NearLine {
  readonly line: number;
  /** The text of the file and the sought text, from shortly before the first difference. */
  readonly has: string;
  readonly sought: string;
}

const maxSoughtLines = 200;
/** Length of the part of a text that is searched. */
export const maxSearchedCharacters = 1_000_000;
const maxLineLength = 200;
const maxExcerptLength = 100;
const minSimilarity = 0.6;

/**
 * Finds lines similar to the sought ones. It is only a hint for a person or a model, so it is bounded rather than
 * complete: it reads the first megabyte, the first sought lines, and the beginnings of lines.
 */
export function findNearestLines(text: string, sought: string, limit = 3): NearLine[] {
  const lines = text.slice(0, maxSearchedCharacters).split('\n');
  const wanted = sought.split('\n', maxSoughtLines);
  const byVotes = findByVotes(lines, wanted, limit);
  const places = byVotes.length > 0 ? byVotes : findBySimilarity(lines, wanted, limit);
  return places.map((first) => findFirstDifference(lines, wanted, first));
}

/** Finds places by votes: a line that equals a sought one, but for blanks, votes for where the whole would begin. */
function findByVotes(lines: readonly string[], wanted: readonly string[], limit: number): number[] {
  const indexOf = new Map<string, number>();
  wanted.forEach((line, i) => {
    const core = trimLine(line);
    if (core.length > 3 && !indexOf.has(core)) indexOf.set(core, i);
  });
  const votes = new Map<number, number>();
  lines.forEach((line, i) => {
    const at = indexOf.get(trimLine(line));
    if (at !== undefined) votes.set(i - at, (votes.get(i - at) ?? 0) + trimLine(line).length);
  });
  return pickBest(votes, limit).filter((place) => place >= 0);
}

/** Finds lines that share most letter pairs with the longest sought one. */
function findBySimilarity(lines: readonly string[], wanted: readonly string[], limit: number): number[] {
  const cores = wanted.map(trimLine);
  const anchor = cores.reduce((a, b) => (b.length > a.length ? b : a), '');
  const at = cores.indexOf(anchor);
  if (anchor.length < 4) return [];
  const pairs = collectLetterPairs(anchor);
  const scores = new Map<number, number>();
  lines.forEach((line, i) => {
    const core = trimLine(line);
    if (core.length < anchor.length / 2 || core.length > anchor.length * 2) return;
    const others = collectLetterPairs(core);
    let shared = 0;
    for (const pair of others) if (pairs.has(pair)) shared++;
    const score = (2 * shared) / (pairs.size + others.size);
    if (score >= minSimilarity && i >= at) scores.set(i - at, score);
  });
  return pickBest(scores, limit);
}

function trimLine(line: string): string {
  return line.slice(0, maxLineLength).trim();
}

function collectLetterPairs(text: string): Set<number> {
  const pairs = new Set<number>();
  for (let i = 1; i < text.length; i++) pairs.add(text.charCodeAt(i - 1) * 65_536 + text.charCodeAt(i));
  return pairs;
}

function pickBest(scores: ReadonlyMap<number, number>, limit: number): number[] {
  const top: [number, number][] = [];
  for (const entry of scores) {
    if (top.length === limit && entry[1] <= (top.at(-1) as [number, number])[1]) continue;
    top.push(entry);
    top.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    if (top.length > limit) top.pop();
  }
  return top.map(([place]) => place);
}

function findFirstDifference(lines: readonly string[], wanted: readonly string[], first: number): NearLine {
  const differs = wanted.findIndex((line, i) => {
    const there = lines[first + i];
    // The sought text may begin and end within a line.
    if (i === 0 && there?.endsWith(line)) return false;
    return i === wanted.length - 1 ? there === undefined || !there.startsWith(line) : there !== line;
  });
  const at = Math.max(differs, 0);
  const has = lines[first + at] ?? '';
  const sought = wanted[at] ?? '';
  let same = 0;
  while (same < has.length && has[same] === sought[same]) same++;
  const from = same > maxExcerptLength / 2 ? same - 20 : 0;
  return { line: first + at + 1, has: excerptLine(has, from), sought: excerptLine(sought, from) };
}

function excerptLine(line: string, from: number): string {
  const end = from + maxExcerptLength;
  return `${from > 0 ? '…' : ''}${line.slice(from, end)}${line.length > end ? '…' : ''}`;
}
