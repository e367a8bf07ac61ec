import { escapeControls } from '../../lib/text/escape-controls.ts';

export type KeyPath = readonly (string | number)[];

const longest = 60;

function short(text: string): string {
  return escapeControls(text.length > longest ? `${text.slice(0, longest)}…` : text);
}

function quoted(text: string): string {
  return `"${short(text.replace(/["\\]/g, '\\$&'))}"`;
}

/** A path as it is read aloud: `servers.notes.args[0]`; odd keys stand in quotes. */
export function showPath(path: KeyPath): string {
  let shown = '';
  for (const segment of path) {
    if (typeof segment === 'number') shown += `[${segment}]`;
    else shown += (shown === '' ? '' : '.') + (/^[A-Za-z0-9_$-]{1,60}$/.test(segment) ? segment : quoted(segment));
  }
  return shown;
}

/** The kind of a value in plain words, without the value. */
export function showKind(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'boolean') return 'true or false';
  return `a ${typeof value}`;
}

/** A single value as it was written, shortened and safe to print; lists and maps only by their kind. */
export function showValue(value: unknown): string {
  if (typeof value === 'string') return quoted(value);
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : showKind(value);
}

/** `a, b or c` */
export function anyOf(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
