import { AmbitError } from '../../errors.ts';
import { withoutSecretKeys } from '../schema/secret-paths.ts';
import { type KeyPath, showPath } from './show.ts';

/** One thing that is wrong with a configuration. */
export interface Problem {
  readonly path: KeyPath;
  /** Whether the key is at fault or what stands behind it. */
  readonly at: 'key' | 'value';
  readonly message: string;
  /** Where in the text, when the path does not tell. */
  readonly offset?: number;
}

export interface Position {
  readonly line: number;
  readonly col: number;
}

export type Locate = (problem: Problem) => Position;

/** A broken generator must not fill a terminal or a log. */
const mostLines = 1000;

/** All problems as one error, a line each, in the order of the file. */
export function configInvalid(file: string, problems: readonly Problem[], locate: Locate): AmbitError {
  const placed = problems.map((problem) => ({ problem, ...locate(problem) }));
  placed.sort((a, b) => a.line - b.line || a.col - b.col);
  const lines = placed.slice(0, mostLines).map(({ problem, line, col }) => {
    const path = showPath(withoutSecretKeys(problem.path));
    return `${file}:${line}:${col} ${path === '' ? '' : `${path}: `}${problem.message}`;
  });
  const unique = [...new Set(lines)];
  if (placed.length > mostLines) unique.push(`${file}: and ${placed.length - mostLines} further problems`);
  return new AmbitError('CONFIG_INVALID', { what: unique.join('\n') });
}
