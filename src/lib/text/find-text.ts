import { findIndented } from './find-indented.ts';
import { placesOf } from './find-runs.ts';
import type { Match } from './match.ts';
import { squeezeBlanks, squeezeBreaks } from './squeeze.ts';

/** How the text was found, the strictest first. None of them guesses: each says in what the two may differ. */
export type Strategy = 'exact' | 'line-endings' | 'trailing-whitespace' | 'indentation';

export interface Found {
  readonly strategy: Strategy;
  /** In order; they may overlap. */
  readonly matches: readonly Match[];
}

/** In longer texts only the first two ways are gone: the others take time that belongs to other sessions too. */
const mostLoosely = 512 * 1024;

/** At most so many; none when no strategy finds any. */
export function findText(text: string, sought: string, most: number): Found | undefined {
  const ways: readonly [Strategy, () => readonly Match[]][] = [
    ['exact', () => findExact(text, sought, most)],
    ['line-endings', () => findSqueezed(text, sought, most, false)],
    ['trailing-whitespace', () => findSqueezed(text, sought, most, true)],
    ['indentation', () => findIndented(text, sought, most)],
  ];
  for (const [strategy, find] of text.length > mostLoosely ? ways.slice(0, 2) : ways) {
    const matches = find();
    if (matches.length > 0) return { strategy, matches };
  }
  return undefined;
}

function findExact(text: string, sought: string, most: number): Match[] {
  // What begins with a bare LF would leave the CR before it behind.
  if (sought.startsWith('\n') && !sought.includes('\r') && text.includes('\r\n')) return [];
  return placesOf(text, sought, most).map((start) => ({ start, end: start + sought.length }));
}

function findSqueezed(text: string, sought: string, most: number, withoutBlanks: boolean): Match[] {
  // Blanks and breaks alone are everywhere once they are no longer told apart.
  const mustSay = withoutBlanks || (sought.includes('\r') && !text.includes('\r\n'));
  if (mustSay && !/\S/.test(sought)) return [];
  if (!withoutBlanks && !text.includes('\r\n') && !sought.includes('\r\n')) return [];
  const squeeze = withoutBlanks ? squeezeBlanks : squeezeBreaks;
  const whole = squeeze(text);
  const short = squeeze(sought).text;
  const endsLine = withoutBlanks && /[ \t]$/.test(sought);
  const places = placesOf(whole.text, short, most).filter(
    (start) => !endsLine || isLineEnd(whole.text, start + short.length),
  );
  const ends = whole.origins(places.map((start) => start + short.length - 1));
  const matches = whole.origins(places).map((start, i) => matchAt(text, start, (ends[i] as number) + 1));
  if (matches.length > 0 || !withoutBlanks) return matches;
  const last = short.slice(0, -1);
  if (!short.endsWith('\n') || whole.text.endsWith('\n') || !whole.text.endsWith(last)) return [];
  const [start = 0] = whole.origins([whole.text.length - last.length]);
  return [{ ...matchAt(text, start, text.length), withoutBreak: true }];
}

/** A line break is replaced whole. */
function matchAt(text: string, start: number, end: number): Match {
  return { start: text[start] === '\n' && text[start - 1] === '\r' ? start - 1 : start, end };
}

function isLineEnd(text: string, at: number): boolean {
  return at === text.length || text[at] === '\n';
}
