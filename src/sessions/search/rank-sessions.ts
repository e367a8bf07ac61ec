import { escapeControls } from '../../lib/text/escape-controls.ts';
import { findSpellings, splitWords } from '../../lib/text/split-words.ts';

/** The texts of a session that can be searched. Of metadata and messages only the distinct words are kept. */
export interface SessionTexts {
  readonly name: string | null;
  readonly task: string | null;
  readonly tools: readonly string[];
  readonly files: readonly string[];
  readonly metadata: readonly string[];
  readonly messages: readonly string[];
}

/** The distinct words of a question, each with its place. */
export type QuestionTerms = ReadonlyMap<string, number>;

export interface TermMatch {
  /** The importance of each word of the question in this session; 0 for a word that it lacks. */
  readonly weights: readonly number[];
  /** The words and values that were found, in one line; empty if the question has no words. */
  readonly why: string;
}

interface RankableSession extends TermMatch {
  readonly id: string;
  readonly createdAt: number;
}

interface SearchedField {
  readonly name: keyof SessionTexts;
  readonly weight: number;
  /** The usual number of words, or of values, of this field. Longer ones match more often by chance. */
  readonly usual: number;
}

interface FieldMatch {
  /** The number of times that each word of the question was found. */
  readonly counts: readonly number[];
  readonly length: number;
  /** The part that may be shown. */
  readonly shown: string;
}

/** In the order in which they are shown. */
const fields: readonly SearchedField[] = [
  { name: 'name', weight: 4, usual: 3 },
  { name: 'task', weight: 3, usual: 30 },
  { name: 'files', weight: 2, usual: 10 },
  { name: 'tools', weight: 2, usual: 10 },
  { name: 'metadata', weight: 1.5, usual: 20 },
  { name: 'messages', weight: 1, usual: 150 },
];

/** BM25 with fields: how soon a repeated word stops to count, and how much long fields are put back. */
const saturation = 1.5;
const lengthPenalty = 0.25;
const maxShownValues = 3;
const maxShownValueLength = 80;
const maxWhyLength = 300;

/** Compares a session with a question; undefined if none of the words occurs. Every session matches no words. */
export function matchTexts(texts: SessionTexts, terms: QuestionTerms): TermMatch | undefined {
  const weights: number[] = Array(terms.size).fill(0);
  const reasons: string[] = [];
  for (const { name, weight, usual } of fields) {
    const { counts, length, shown } = matchField(name, texts, terms);
    if (!counts.some((count) => count > 0)) continue;
    const norm = 1 - lengthPenalty + (lengthPenalty * length) / usual;
    for (const [at, count] of counts.entries()) {
      if (count > 0) weights[at] = (weights[at] as number) + (weight * (1 + Math.log(count))) / norm;
    }
    reasons.push(shown === '' ? name : `${name}: ${shown}`);
  }
  if (reasons.length === 0 && terms.size > 0) return undefined;
  return { weights, why: shortenText(escapeControls(reasons.join('; ')), maxWhyLength) };
}

/**
 * Ranks matches, the best first. `total` is the number of sessions that were compared: the fewer of them have a word, the
 * more it says. A session with few of the words is put back. Among equal ones, the newest is the first.
 */
export function rankSessions<T extends RankableSession>(matches: readonly T[], total: number): T[] {
  const frequencies: number[] = [];
  for (const { weights } of matches) {
    for (const [at, weight] of weights.entries()) frequencies[at] = (frequencies[at] ?? 0) + Number(weight > 0);
  }
  const rarities = frequencies.map((count) => Math.log(1 + (total - count + 0.5) / (count + 0.5)));
  return matches
    .map((match) => ({ match, score: scoreMatch(match, rarities) }))
    .sort((one, other) => other.score - one.score || compareAge(one.match, other.match))
    .map(({ match }) => match);
}

function scoreMatch({ weights }: TermMatch, rarities: readonly number[]): number {
  let score = 0;
  let found = 0;
  for (const [at, weight] of weights.entries()) {
    if (weight === 0) continue;
    found++;
    score += ((rarities[at] as number) * weight * (saturation + 1)) / (weight + saturation);
  }
  return found === 0 ? 0 : (score * found) / weights.length;
}

function compareAge(one: RankableSession, other: RankableSession): number {
  return other.createdAt - one.createdAt || (one.id < other.id ? -1 : 1);
}

function matchField(name: keyof SessionTexts, texts: SessionTexts, terms: QuestionTerms): FieldMatch {
  const value = texts[name];
  if (typeof value === 'string') return matchText(value, terms);
  if (value === null) return { counts: [], length: 0, shown: '' };
  return name === 'tools' || name === 'files' ? matchValues(value, terms) : matchWords(value, terms);
}

function matchText(text: string, terms: QuestionTerms): FieldMatch {
  const words = splitWords(text);
  const counts = countTerms(words, terms);
  const found = [...terms].flatMap(([term, at]) => ((counts[at] as number) > 0 ? [term] : []));
  const shown = found.length === 0 ? [] : findSpellings(text, found);
  return { counts, length: words.length, shown: shown.map((each) => shortenText(each, maxShownValueLength)).join(' ') };
}

/** Shows the values with the most words of the question. */
function matchValues(values: readonly string[], terms: QuestionTerms): FieldMatch {
  const counts: number[] = Array(terms.size).fill(0);
  const best: { value: string; found: number }[] = [];
  for (const value of values) {
    let found = 0;
    for (const word of new Set(splitWords(value))) {
      const at = terms.get(word);
      if (at === undefined) continue;
      counts[at] = (counts[at] as number) + 1;
      found++;
    }
    if (found > 0) best.push({ value, found });
  }
  best.sort((one, other) => other.found - one.found);
  const shown = best.slice(0, maxShownValues).map(({ value }) => shortenText(value, maxShownValueLength));
  return { counts, length: values.length, shown: shown.join(', ') };
}

/** Shows nothing: notes of the orchestrator and messages are for nobody but their readers. */
function matchWords(words: readonly string[], terms: QuestionTerms): FieldMatch {
  return { counts: countTerms(words, terms), length: words.length, shown: '' };
}

function countTerms(words: readonly string[], terms: QuestionTerms): number[] {
  const counts: number[] = Array(terms.size).fill(0);
  for (const word of words) {
    const at = terms.get(word);
    if (at !== undefined) counts[at] = (counts[at] as number) + 1;
  }
  return counts;
}

/** Cuts a text, but no character in two. */
function shortenText(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).replace(/\p{Surrogate}/gu, '')}…`;
}
