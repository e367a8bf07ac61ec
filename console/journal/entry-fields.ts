import { effect, type Signal, signal } from '@preact/signals';
import type { AnswerOf } from '../api/request.ts';
import { signedIn } from '../sign-in/signed-in.ts';

/** A line of the journal. Its kind decides which further members it has. */
export type JournalEntry = AnswerOf<'GET /api/v1/journal'>['entries'][number];
/** Writes the sentence of a line. */
export type Sentence = (entry: JournalEntry) => string;

const maxPart = 200;
const shortId = 8;

/** Reads a field as text, cut to a readable length; empty if the line does not have it. */
export function readText(entry: JournalEntry, name: string): string {
  const value = entry[name];
  if (value === undefined || value === null) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > maxPart ? `${text.slice(0, maxPart)}…` : text;
}

/** Reads a field that is a number. */
export function readNumber(entry: JournalEntry, name: string): number | undefined {
  const value = entry[name];
  return typeof value === 'number' ? value : undefined;
}

/** Puts a word before a field. Empty if the line does not have the field. */
export function withWord(entry: JournalEntry, word: string, name: string): string {
  const text = readText(entry, name);
  return text === '' ? '' : ` ${word} ${text}`;
}

/** The names of sessions by id, as far as the console knows them. Sentences name a session rather than its id. */
export const sessionNames: Signal<ReadonlyMap<string, string>> = signal(new Map());

export function addSessionNames(sessions: readonly { readonly id: string; readonly name: string | null }[]): void {
  const known = sessionNames.peek();
  const fresh = sessions.filter(({ id, name }) => name !== null && known.get(id) !== name);
  if (fresh.length === 0) return;
  sessionNames.value = new Map([...known, ...fresh.map(({ id, name }) => [id, name as string] as const)]);
}

/** Nothing of one sign-in is kept for the next. */
effect(() => {
  if (signedIn.value === undefined) sessionNames.value = new Map();
});

/** Reads the name of a session, or its id, shortened as the commands show it. */
export function nameSession(entry: JournalEntry, field: string, unknown = 'unknown'): string {
  return nameOf(readText(entry, field)) || unknown;
}

export function nameOf(id: string): string {
  return sessionNames.value.get(id) ?? id.slice(0, shortId);
}

/** Writes where a call went: a server, Ambit itself, or all servers. */
export function describePlace(entry: JournalEntry): string {
  const server = readText(entry, 'server');
  if (server === '*') return 'all servers';
  if (server === 'ambit') return 'Ambit';
  return server === '' ? 'an unknown server' : `server ${server}`;
}

/** Reads the name of a tool without its server, which calls at the address of all servers put in front. */
export function readToolName(entry: JournalEntry): string {
  const name = readText(entry, 'name') || readText(entry, 'tool');
  const prefix = `${readText(entry, 'server')}__`;
  return name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

export function capitalize(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
