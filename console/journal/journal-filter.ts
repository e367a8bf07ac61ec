import type { RequestOf } from '../../src/entrances/control/routes.ts';
import { type AnswerOf, pathOf } from '../api/request.ts';
import { hrefOf } from '../frame/route.ts';
import { quoteWord } from '../parts/quote-word.ts';

type JournalQuery = NonNullable<RequestOf<'GET /api/v1/journal'>['query']>;
export type JournalPage = AnswerOf<'GET /api/v1/journal'>;

/** The filters of the journal, as the address holds them. */
export type Query = ReadonlyMap<string, string>;

export const kinds = [
  'call',
  'push',
  'file',
  'session',
  'process',
  'egress',
  'gateway',
  'refusal',
] as const satisfies readonly NonNullable<JournalQuery['kind']>[];
export const ranges: readonly (readonly [name: string, label: string, hours: number])[] = [
  ['1h', 'Last hour', 1],
  ['24h', 'Last 24 hours', 24],
  ['7d', 'Last 7 days', 168],
  ['30d', 'Last 30 days', 720],
];
/** Filters that links from other views set. They are shown only then. */
export const linkedNames = ['event', 'method', 'rule'] as const;
const texts = ['session', 'user', 'server', 'tool', 'outcome', 'id', 'words', ...linkedNames] as const;
/** The members of the address that are filters. */
export const filterNames: readonly string[] = [...texts, 'kind', 'range', 'since', 'until'];
const hourMs = 3_600_000;
const aroundMs = 60_000;

/** Reads the conditions of a request from the address. Values that the API would not take are left out. */
export function readJournalQuery(query: Query, now: number): JournalQuery {
  const entries = texts.map((name) => [name, query.get(name)?.trim() || undefined] as const);
  const hours = ranges.find(([name]) => name === query.get('range'))?.[2];
  const since = readInstant(query.get('since'));
  return {
    ...Object.fromEntries(entries),
    kind: kinds.find((kind) => kind === query.get('kind')),
    since: since ?? (hours === undefined ? undefined : new Date(now - hours * hourMs).toISOString()),
    until: readInstant(query.get('until')),
  };
}

function readInstant(text: string | undefined): string | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

/** Writes all filters as one text: equal texts mean the same lines. */
export function keyOfFilters(query: Query): string {
  return JSON.stringify(filterNames.map((name) => query.get(name)?.trim() ?? ''));
}

export function hasFilters(query: Query): boolean {
  return filterNames.some((name) => (query.get(name) ?? '').trim() !== '');
}

/** Writes the address of the journal with one filter more. All other filters stay. */
export function hrefWith(query: Query, name: string, value: string): string {
  return hrefOf(['journal'], { ...Object.fromEntries(query), from: undefined, [name]: value });
}

/** Writes the address of all lines of a call. It remembers the present filters, so that the reader can return to them. */
export function hrefOfCall(query: Query, id: string): string {
  return hrefOf(['journal'], { id, from: writeEarlier(query) });
}

/** Writes the address of all lines within a minute of a time. It remembers the present filters as well. */
export function hrefOfMoment(query: Query, instant: string): string {
  const time = Date.parse(instant);
  if (Number.isNaN(time)) return hrefOf(['journal']);
  const [since, until] = [time - aroundMs, time + aroundMs].map((each) => new Date(each).toISOString());
  return hrefOf(['journal'], { since, until, from: writeEarlier(query) });
}

/** Writes the filters to return to. From one call to the next, they stay those of the start. */
function writeEarlier(query: Query): string {
  const known = query.get('from');
  if (known !== undefined) return known;
  const earlier = [...query].filter(([name]) => filterNames.includes(name) || name === 'tail');
  return new URLSearchParams(earlier).toString() || 'all=';
}

/** Writes the address of the filters before those of a call; undefined if there were none. */
export function hrefOfEarlier(query: Query): string | undefined {
  const from = query.get('from');
  return from === undefined ? undefined : hrefOf(['journal'], Object.fromEntries(new URLSearchParams(from)));
}

/** Writes the command that prints the same lines. */
export function writeCommand(query: Query, isTailing: boolean): string {
  const id = query.get('id')?.trim() ?? '';
  if (id.length >= 6) return `ambit audit show ${quoteWord(id)} --json`;
  if (isTailing && !hasFilters(query)) return 'ambit audit tail --follow --json';
  const flags = ['session', 'user', 'server', 'tool', 'kind', ...linkedNames, 'outcome', 'until'].flatMap((name) => {
    const value = query.get(name)?.trim() ?? '';
    return value === '' ? [] : [`--${name}=${quoteWord(value)}`];
  });
  const since = query.get('since') || query.get('range') || '';
  const words = (query.get('words') ?? '').split(/\s+/).filter(Boolean).map(quoteWord);
  const all = [...flags, ...(since === '' ? [] : [`--since=${quoteWord(since)}`]), '--json', ...asOperands(words)];
  return `ambit audit search ${all.join(' ')}`;
}

/** Puts "--" before words that would be read as flags: the address of a view may come from somebody else. */
function asOperands(words: readonly string[]): readonly string[] {
  return words.some((word) => word.startsWith('-')) ? ['--', ...words] : words;
}

/** Writes the request that returns the same lines. */
export function writePath(query: Query, now: number): string {
  return pathOf('GET /api/v1/journal', { query: readJournalQuery(query, now) });
}
