import type { Tone } from '../parts/badge.tsx';
import { type JournalEntry, readNumber, readText } from './entry-fields.ts';

interface Result {
  /** The outcome in a word; empty if the line has none. */
  readonly text: string;
  readonly tone: Tone;
  readonly isFailure: boolean;
}

const failureEvents: Readonly<Record<string, string>> = {
  'start-failed': 'failed',
  'endless-line': 'ended',
  'unreadable-lines': 'ended',
  refused: 'refused',
  'entries-lost': 'lost',
  'login-lost': 'lost',
  'not-resolved': 'not found',
};
const goodOutcomes: ReadonlySet<string> = new Set(['ok', 'allowed']);
/** The tool or its server failed, and Ambit did what it should. */
const serverOutcomes: ReadonlySet<string> = new Set(['tool-error', 'server-error', 'failed']);

/** Reads how the thing ended that a line is about. */
export function readResult(entry: JournalEntry): Result {
  const outcome = readText(entry, 'outcome') || readText(entry, 'decision');
  const code = readText(entry, 'code');
  if (outcome === 'undelivered') return { text: outcome, tone: 'plain', isFailure: false };
  if (goodOutcomes.has(outcome)) return { text: outcome, tone: 'good', isFailure: false };
  if (outcome !== '') {
    return { text: outcome, tone: serverOutcomes.has(outcome) ? 'warn' : 'bad', isFailure: true };
  }
  const status = readNumber(entry, 'status');
  if (entry.kind === 'refusal') {
    return { text: code || (status === undefined ? 'refused' : String(status)), tone: 'bad', isFailure: true };
  }
  const failure = failureEvents[readText(entry, 'event')];
  if (failure !== undefined) return { text: failure, tone: 'bad', isFailure: true };
  if (status === undefined) return { text: '', tone: 'plain', isFailure: false };
  return { text: String(status), tone: status >= 400 ? 'bad' : 'good', isFailure: status >= 400 };
}
