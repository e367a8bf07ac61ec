import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';

export type KeyPath = readonly (string | number)[];

const maxShownLength = 60;

/** Keys of a server whose values may contain secrets; arguments and addresses may contain tokens. */
const serverSecrets = new Set<string | number>(['env', 'headers', 'args', 'url', 'command']);

export interface ConfigProblem {
  readonly path: KeyPath;
  readonly at: 'key' | 'value';
  readonly message: string;
  /** The offset in the text, when the path does not determine it. */
  readonly offset?: number;
}

export type Locator = (problem: ConfigProblem) => { readonly line: number; readonly col: number };

/** Limits the lines of an error, so that a broken generator does not fill a terminal or a log. */
const maxLines = 1000;

/** Creates one error of all problems, a line each, in the order of the file. */
export function configInvalidError(file: string, problems: readonly ConfigProblem[], locate: Locator): AmbitError {
  const placed = problems.map((problem) => ({ problem, ...locate(problem) }));
  placed.sort((a, b) => a.line - b.line || a.col - b.col);
  const lines = placed.slice(0, maxLines).map(({ problem, line, col }) => {
    const path = showPath(withoutSecretKeys(problem.path));
    return `${file}:${line}:${col} ${path === '' ? '' : `${path}: `}${problem.message}`;
  });
  const unique = [...new Set(lines)];
  if (placed.length > maxLines) unique.push(`${file}: and ${formatCount(placed.length - maxLines, 'more problem')}`);
  return new AmbitError('CONFIG_INVALID', { what: unique.join('\n') });
}

/** Tells whether a value must not be repeated in a message. */
export function isSecret(path: KeyPath): boolean {
  const [section, , key] = path;
  if (section === 'servers') return key !== undefined && serverSecrets.has(key);
  if (section === 'workspaces') return key === 'env';
  if (section === 'events') return key === 'url';
  if (section === 'telemetry') return path[1] === 'otlpUrl' || path[1] === 'headers';
  return section === 'store' && path[1] !== undefined && path[1] !== 'kind';
}

/** Cuts a path before a variable or header whose name looks like more than a name, since such names are free text. */
export function withoutSecretKeys(path: KeyPath): KeyPath {
  const [section, second, key] = path;
  const named = section === 'servers' || section === 'workspaces' ? key : section === 'telemetry' ? second : undefined;
  if (named !== 'env' && named !== 'headers') return path;
  const first = path.indexOf(named) + 1;
  const firstUnusual = path.findIndex(
    (segment, index) => index >= first && !/^[A-Za-z0-9_.-]{1,60}$/.test(String(segment)),
  );
  return firstUnusual === -1 ? path : path.slice(0, firstUnusual);
}

function quoteText(text: string): string {
  const escaped = text.replace(/["\\]/g, '\\$&');
  return `"${escapeControls(escaped.length > maxShownLength ? `${escaped.slice(0, maxShownLength)}…` : escaped)}"`;
}

/** Writes a path such as `servers.notes.args[0]`; unusual keys are quoted. */
export function showPath(path: KeyPath): string {
  let shown = '';
  for (const segment of path) {
    if (typeof segment === 'number') shown += `[${segment}]`;
    else shown += (shown === '' ? '' : '.') + (/^[A-Za-z0-9_$-]{1,60}$/.test(segment) ? segment : quoteText(segment));
  }
  return shown;
}

/** Names the kind of a value without the value. */
export function showKind(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'boolean') return 'true or false';
  return `a ${typeof value}`;
}

/** Writes a single value, shortened and safe to print; lists and maps only by their kind. */
export function showValue(value: unknown): string {
  // An address with a password may stand at a key where nobody expects one.
  if (typeof value === 'string') return /:\/\/[^/\s]*@/.test(value) ? 'an address' : quoteText(value);
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : showKind(value);
}

/** Writes `a, b or c`. */
export function joinWithOr(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
