export interface NearLine {
  readonly line: number;
  /** What the file has there, and what was sought instead, from a little before where they part. */
  readonly has: string;
  readonly sought: string;
}

const mostWanted = 200;
/** How much of a text is looked at. */
export const mostCharacters = 1_000_000;
const longest = 200;
const shownLength = 100;
const likeEnough = 0.6;

/**
 * Where in a text something like the sought lines is. Only a hint for a person or a model, so it is bounded rather than
 * complete: it looks at the first megabyte, at the first lines sought, and at the beginnings of lines.
 */
export function nearestLines(text: string, sought: string, most = 3): NearLine[] {
  const lines = text.slice(0, mostCharacters).split('\n');
  const wanted = sought.split('\n', mostWanted);
  const byVotes = votedPlaces(lines, wanted, most);
  const places = byVotes.length > 0 ? byVotes : similarPlaces(lines, wanted, most);
  return places.map((first) => firstDifference(lines, wanted, first));
}

/** Lines that are the same but for blanks around them speak for the place where the whole would begin. */
function votedPlaces(lines: readonly string[], wanted: readonly string[], most: number): number[] {
  const indexOf = new Map<string, number>();
  wanted.forEach((line, i) => {
    const core = coreOf(line);
    if (core.length > 3 && !indexOf.has(core)) indexOf.set(core, i);
  });
  const votes = new Map<number, number>();
  lines.forEach((line, i) => {
    const at = indexOf.get(coreOf(line));
    if (at !== undefined) votes.set(i - at, (votes.get(i - at) ?? 0) + coreOf(line).length);
  });
  return best(votes, most).filter((place) => place >= 0);
}

/** Failing that, lines that share most pairs of letters with the longest one sought. */
function similarPlaces(lines: readonly string[], wanted: readonly string[], most: number): number[] {
  const cores = wanted.map(coreOf);
  const longestOne = cores.reduce((a, b) => (b.length > a.length ? b : a), '');
  const at = cores.indexOf(longestOne);
  if (longestOne.length < 4) return [];
  const pairs = pairsOf(longestOne);
  const scores = new Map<number, number>();
  lines.forEach((line, i) => {
    const core = coreOf(line);
    if (core.length < longestOne.length / 2 || core.length > longestOne.length * 2) return;
    const others = pairsOf(core);
    let shared = 0;
    for (const pair of others) if (pairs.has(pair)) shared++;
    const score = (2 * shared) / (pairs.size + others.size);
    if (score >= likeEnough && i >= at) scores.set(i - at, score);
  });
  return best(scores, most);
}

function coreOf(line: string): string {
  return line.slice(0, longest).trim();
}

function pairsOf(text: string): Set<number> {
  const pairs = new Set<number>();
  for (let i = 1; i < text.length; i++) pairs.add(text.charCodeAt(i - 1) * 65_536 + text.charCodeAt(i));
  return pairs;
}

function best(scores: ReadonlyMap<number, number>, most: number): number[] {
  const top: [number, number][] = [];
  for (const entry of scores) {
    if (top.length === most && entry[1] <= (top.at(-1) as [number, number])[1]) continue;
    top.push(entry);
    top.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    if (top.length > most) top.pop();
  }
  return top.map(([place]) => place);
}

function firstDifference(lines: readonly string[], wanted: readonly string[], first: number): NearLine {
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
  const from = same > shownLength / 2 ? same - 20 : 0;
  return { line: first + at + 1, has: part(has, from), sought: part(sought, from) };
}

function part(line: string, from: number): string {
  const end = from + shownLength;
  return `${from > 0 ? '…' : ''}${line.slice(from, end)}${line.length > end ? '…' : ''}`;
}
