import type { z } from 'zod';
import { formatCount } from '../../lib/text/format-count.ts';
import { createConfigJsonSchema, listKeysAt } from '../schema/json-schema.ts';
import { type ConfigProblem, isSecret, joinWithOr, type KeyPath, showKind, showValue } from './problem.ts';
import { suggestClosest } from './suggest.ts';

type ZodIssue = z.core.$ZodIssue;

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a map',
  record: 'a map',
  array: 'a list',
};

/** Keys of other tools that are missing here for a reason. */
const missingKeyReasons: Readonly<Record<string, string>> = {
  cwd: 'unknown key; a server runs in the workspace of its session',
};

function findValue(root: unknown, path: KeyPath): unknown {
  let value = root;
  for (const segment of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, segment)) return undefined;
    value = (value as Record<string | number, unknown>)[segment];
  }
  return value;
}

/** Writes "found …", with the value only where it cannot reveal a secret. */
function describeFound(value: unknown, path: KeyPath, expected: string): string {
  if (isSecret(path)) return value === null ? '' : `, found ${showKind(value)}`;
  const container = expected === 'a map' || expected === 'a list';
  return `, found ${container ? showKind(value) : showValue(value)}`;
}

function explainWrongType(expected: string, value: unknown, path: KeyPath): string {
  if (value === undefined) return `missing; expected ${expected}`;
  const quotes = expected === 'a string' && (typeof value === 'number' || typeof value === 'boolean');
  return `expected ${expected}${describeFound(value, path, expected)}${quotes ? '; put it in quotes' : ''}`;
}

function explainWrongValue(values: readonly unknown[], value: unknown, path: KeyPath, others: string[] = []): string {
  const expected = joinWithOr([...values.map(showValue), ...others]);
  if (value === undefined) return `missing; expected ${expected}`;
  const options = values.filter((option) => typeof option === 'string');
  const suggestion = typeof value === 'string' ? suggestClosest(value, options) : '';
  return `expected ${expected}${describeFound(value, path, expected)}${suggestion}`;
}

function explainWrongSize(issue: ZodIssue & { code: 'too_small' | 'too_big' }, value: unknown, path: KeyPath): string {
  const bound = issue.code === 'too_small' ? issue.minimum : issue.maximum;
  const exclusive = issue.inclusive === false;
  const relation =
    issue.code === 'too_small' ? (exclusive ? 'more than' : 'at least') : exclusive ? 'less than' : 'at most';
  if (issue.origin === 'string') return `expected ${relation} ${formatCount(Number(bound), 'character')}`;
  if (issue.origin === 'array') return `expected ${relation} ${formatCount(Number(bound), 'entry', 'entries')}`;
  return `expected ${relation} ${bound}${describeFound(value, path, 'a number')}`;
}

/** Explains a value that matches none of several shapes, by the shape it comes nearest to. */
function explainUnion(
  errors: readonly (readonly ZodIssue[])[],
  value: unknown,
  path: KeyPath,
  explain: ExplainIssue,
): ConfigProblem[] {
  const isMismatch = (issue: ZodIssue): boolean =>
    issue.path.length === 0 && (issue.code === 'invalid_type' || issue.code === 'invalid_value');
  const nearest = errors.find((issues) => issues.length > 0 && !issues.some(isMismatch));
  if (nearest !== undefined && value !== undefined) return nearest.flatMap((issue) => explain(issue, path));
  const issues = errors.flat();
  const values = issues.flatMap((issue) => (issue.code === 'invalid_value' ? issue.values : []));
  const kinds = issues.flatMap((issue) =>
    issue.code === 'invalid_type' ? [typeNames[issue.expected] ?? issue.expected] : [],
  );
  return [{ path, at: 'value', message: explainWrongValue([...new Set(values)], value, path, [...new Set(kinds)]) }];
}

type ExplainIssue = (issue: ZodIssue, prefix: KeyPath) => ConfigProblem[];

/** Explains the issues of Zod in plain words, each with its path. */
export function explainIssues(issues: readonly ZodIssue[], root: unknown): ConfigProblem[] {
  let schema: ReturnType<typeof createConfigJsonSchema> | undefined;
  const keysAt = new Map<string, string[]>();

  function explainUnknownKey(parent: KeyPath, key: string): ConfigProblem {
    const id = JSON.stringify(parent);
    schema ??= createConfigJsonSchema();
    const known = keysAt.get(id) ?? listKeysAt(parent, schema);
    keysAt.set(id, known);
    const isComment = key.startsWith('//') || key.startsWith('/*');
    const foreign = Object.hasOwn(missingKeyReasons, key) ? missingKeyReasons[key] : undefined;
    const reason = isComment ? 'unknown key; a comment starts with "#" here' : foreign;
    return { path: [...parent, key], at: 'key', message: reason ?? `unknown key${suggestClosest(key, known)}` };
  }

  const explain: ExplainIssue = (issue, prefix) => {
    const path = [...prefix, ...issue.path.map((segment) => (typeof segment === 'symbol' ? '' : segment))];
    const value = findValue(root, path);
    const problem = (message: string): ConfigProblem[] => [{ path, at: 'value', message }];
    switch (issue.code) {
      case 'unrecognized_keys':
        return issue.keys.map((key) => explainUnknownKey(path, key));
      case 'invalid_type':
        return problem(explainWrongType(typeNames[issue.expected] ?? issue.expected, value, path));
      case 'invalid_value':
        return problem(explainWrongValue(issue.values, value, path));
      case 'too_small':
      case 'too_big':
        // Zod reports its own outer bound of whole numbers beside ours.
        if ('note' in issue) return [];
        return problem(explainWrongSize(issue, value, path));
      case 'invalid_format':
        return problem(`${issue.message}${isSecret(path) ? '' : `, found ${showValue(value)}`}`);
      case 'invalid_union':
        return explainUnion(issue.errors, value, path, explain);
      case 'custom':
        return [{ path, at: issue.params?.['at'] === 'key' ? 'key' : 'value', message: issue.message }];
      default:
        return problem(issue.message);
    }
  };
  return issues.flatMap((issue) => explain(issue, []));
}
