import { findSpellings, splitWords } from '../../lib/text/split-words.ts';
import { createSearchBudget, type SearchBudget } from '../search/search-budget.ts';
import type { Passage } from './split-passages.ts';

/** A passage that was read from a file of the session. */
export interface ReadPassage extends Passage {
  readonly path: string;
  /** The lines from its first one on, as they are shown. */
  readonly shown: string;
}

/** A passage that answers the question, with the reason. */
export interface RankedMatch {
  readonly path: string;
  readonly startLine: number;
  readonly endLine: number;
  readonly why: string;
}

export interface RankOptions {
  readonly terms: readonly string[];
  /** The number of passages that contain a word of the question, and of all passages. */
  readonly frequencies: Readonly<Record<string, number>>;
  readonly passages: number;
  /** The ranks by meaning of an embedding provider, from 0, by path and first line. */
  readonly meaningRanks?: ReadonlyMap<string, number> | undefined;
  readonly limit: number;
}

/** The words of the question by the place where they were found. */
interface FoundWords {
  readonly names: string[];
  readonly path: string[];
  readonly text: string[];
}

interface ScoredPassage {
  readonly passage: ReadPassage;
  readonly words: ReadonlySet<string>;
  readonly found: FoundWords;
  score: number;
}

/** BM25 with fields: how soon a repeated word stops to count, and how much long passages are put back. */
const saturation = 1.5;
const lengthPenalty = 0.25;
const usualWords = 60;
/** A word in the path, in the name of a definition, or in the name of the enclosing one counts as so many in the text. */
const pathWeight = 1.5;
const nameWeight = 2.5;
const scopeWeight = 0.7;
/** Words that are neighbours in the question say more together. */
const pairWeight = 0.4;
const maxPairDistance = 2;
/** A file with several good passages is more likely to be about the question. */
const fileWeight = 0.08;
/** Tests count less, unless the question is about tests: it means the code. */
const testWeight = 0.55;
const testPath = /(?:^|[/._-])(?:tests?|spec|__tests__|fixtures?|bench(?:mark)?s?|examples?)(?:[/._-]|$)/i;

const maxPerFile = 3;
/** Passages of one file that are this near are shown as one, up to so many lines. */
export const maxGap = 2;
const maxJoinedLines = 60;
/** Passages with the same words are copies; one of them is enough. */
const maxSimilarity = 0.8;

/** The most passages that are compared with each other, and the most words of each. */
const maxCompared = 500;
const maxComparedWords = 1000;

/**
 * Ranks passages by a question, the best first. Passages that lie together are joined, and copies are left out. Other
 * work of the process goes on meanwhile.
 */
export async function rankMatches(read: readonly ReadPassage[], options: RankOptions): Promise<RankedMatch[]> {
  const pace = createSearchBudget({ entries: Number.POSITIVE_INFINITY, ms: Number.POSITIVE_INFINITY });
  const scored = await scorePassages(read, options, pace);
  const matches: { match: RankedMatch; words: ReadonlySet<string> }[] = [];
  const perFile = new Map<string, number>();
  for (const { passage, words, found } of scored.slice(0, maxCompared)) {
    await pace.canContinue();
    const { path, startLine, endLine } = passage;
    const near = matches.findIndex(({ match }) => canJoin(match, passage));
    if (near !== -1) {
      const { match } = matches[near] as (typeof matches)[number];
      const joined = { startLine: Math.min(match.startLine, startLine), endLine: Math.max(match.endLine, endLine) };
      matches[near] = { match: { ...match, ...joined }, words };
      continue;
    }
    const count = perFile.get(path) ?? 0;
    if (matches.length >= options.limit || count >= maxPerFile) continue;
    if (matches.some((other) => areSimilar(other.words, words))) continue;
    perFile.set(path, count + 1);
    matches.push({ match: { path, startLine, endLine, why: explainMatch(passage, found) }, words });
  }
  return matches.map(({ match }) => match);
}

async function scorePassages(
  read: readonly ReadPassage[],
  options: RankOptions,
  pace: SearchBudget,
): Promise<ScoredPassage[]> {
  const { terms, meaningRanks } = options;
  const weigh = createWeights(options);
  const asksForTests = terms.includes('test');
  const scored: ScoredPassage[] = [];
  for (const passage of read) {
    await pace.canContinue();
    const result = scorePassage(passage, terms, weigh);
    const rank = meaningRanks?.get(`${passage.path}\0${passage.startLine}`);
    if (result.score === 0 && rank === undefined) continue;
    const factor = !asksForTests && testPath.test(passage.path) ? testWeight : 1;
    scored.push({ passage, ...result, score: result.score * factor });
  }
  addFileScores(scored);
  scored.sort((one, other) => other.score - one.score);
  return meaningRanks === undefined ? scored : fuseRanks(scored, meaningRanks);
}

function createWeights({ frequencies, passages }: RankOptions): (term: string) => number {
  return (term) => {
    const count = Math.min(frequencies[term] ?? 0, passages);
    return Math.log(1 + (passages - count + 0.5) / (count + 0.5));
  };
}

function scorePassage(passage: ReadPassage, terms: readonly string[], weigh: (term: string) => number) {
  const text = splitWords(passage.text);
  const positions = findPositions(text, new Set(terms));
  const [path, names, scope] = [passage.path, passage.names.join(' '), passage.scope].map(splitWords) as [
    string[],
    string[],
    string[],
  ];
  const norm = 1 - lengthPenalty + (lengthPenalty * text.length) / usualWords;
  let score = 0;
  const found: FoundWords = { names: [], path: [], text: [] };
  for (const [at, term] of terms.entries()) {
    const named = names.includes(term) ? 1 + Number(names.indexOf(term) !== names.lastIndexOf(term)) : 0;
    const [inPath, inScope, inText] = [path.includes(term), scope.includes(term), positions.get(term) ?? []];
    const count =
      Number(inPath) * pathWeight + named * nameWeight + Number(inScope) * scopeWeight + inText.length / norm;
    if (count === 0) continue;
    score += (weigh(term) * count * (saturation + 1)) / (count + saturation);
    if (named > 0) found.names.push(term);
    else if (inText.length > 0) found.text.push(term);
    else if (inPath) found.path.push(term);
    const before = terms[at - 1];
    if (before !== undefined && areNeighbours(positions.get(before), inText))
      score += pairWeight * Math.min(weigh(before), weigh(term));
  }
  return { score, words: new Set(text.slice(0, maxComparedWords)), found };
}

function findPositions(words: readonly string[], terms: ReadonlySet<string>): Map<string, number[]> {
  const positions = new Map<string, number[]>();
  for (const [at, word] of words.entries()) {
    if (!terms.has(word)) continue;
    const known = positions.get(word);
    if (known === undefined) positions.set(word, [at]);
    else known.push(at);
  }
  return positions;
}

/** Tells whether two words stand side by side somewhere. Both lists are sorted. */
function areNeighbours(one: readonly number[] | undefined, other: readonly number[]): boolean {
  if (one === undefined) return false;
  for (let a = 0, b = 0; a < one.length && b < other.length; ) {
    const distance = (one[a] as number) - (other[b] as number);
    if (Math.abs(distance) <= maxPairDistance) return true;
    if (distance < 0) a++;
    else b++;
  }
  return false;
}

function addFileScores(scored: readonly ScoredPassage[]): void {
  const byFile = new Map<string, number[]>();
  for (const { passage, score } of scored) {
    const known = byFile.get(passage.path);
    if (known === undefined) byFile.set(passage.path, [score]);
    else known.push(score);
  }
  for (const scores of byFile.values()) scores.sort((one, other) => other - one);
  for (const each of scored) {
    const further = byFile.get(each.passage.path)?.slice(1, 4) ?? [];
    each.score += fileWeight * further.reduce((sum, score) => sum + score, 0);
  }
}

/** The usual constant of reciprocal rank fusion: how little the first ranks stand out. */
const fusionRank = 60;

/** Joins the ranking by words with that by meaning. Their scores cannot be compared, so only ranks count. */
function fuseRanks(scored: readonly ScoredPassage[], meaningRanks: ReadonlyMap<string, number>): ScoredPassage[] {
  const fused = scored.map((each, rank) => {
    const meaning = meaningRanks.get(`${each.passage.path}\0${each.passage.startLine}`);
    const byWords = each.score === 0 ? 0 : 1 / (fusionRank + rank);
    return { ...each, score: byWords + (meaning === undefined ? 0 : 1 / (fusionRank + meaning)) };
  });
  return fused.sort((one, other) => other.score - one.score);
}

function canJoin(match: RankedMatch, { path, startLine, endLine }: ReadPassage): boolean {
  if (match.path !== path) return false;
  if (startLine > match.endLine + maxGap + 1 || endLine < match.startLine - maxGap - 1) return false;
  return Math.max(match.endLine, endLine) - Math.min(match.startLine, startLine) < maxJoinedLines;
}

function areSimilar(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let common = 0;
  for (const word of other) if (one.has(word)) common++;
  return common / (one.size + other.size - common) > maxSimilarity;
}

const maxShownNames = 3;

/** Says why a passage was found, with its own names: the words of the question have lost their endings. */
function explainMatch({ names, text, path }: ReadPassage, found: FoundWords): string {
  const named = names.filter((name) => splitWords(name).some((word) => found.names.includes(word)));
  const shown = [...new Set(named)].slice(0, maxShownNames).join(', ');
  const parts = [
    ...(shown === '' ? [] : [`defines ${shown}`]),
    ...(found.text.length === 0 ? [] : [`contains ${findSpellings(text, found.text).join(', ')}`]),
    ...(found.path.length === 0 ? [] : [`path contains ${findSpellings(path, found.path).join(', ')}`]),
  ];
  return parts.length === 0 ? 'similar in meaning' : parts.join('; ');
}
