import type { z } from 'zod';
import { whyVariableRefused } from '../../context/for-tools/refused-variables.ts';
import { whyOverrideRefused } from '../../context/for-tools/session-context.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { compileToolPattern } from '../../rules/tool-pattern.ts';
import { loadConditions } from '../../rules/tool-rules.ts';
import { type ConfigProblem, isSecret, joinWithOr, type KeyPath, showKind, showValue } from '../explain/problem.ts';
import { suggestClosest } from '../explain/suggest.ts';
import { fitsPattern } from '../load/workspace-folders.ts';
import { createConfigJsonSchema, listKeysAt } from './json-schema.ts';
import type { ConfigDraft } from './schema.ts';
import { isMap } from './schema-parts.ts';

interface NotBuiltRow {
  /** `*` stands for any name. */
  readonly key: string;
  /** The reason why starting without it is refused; without one the key is ignored with a warning. */
  readonly refuse?: string;
  /** Returns true when the value asks for nothing that is missing. */
  readonly harmless?: (value: unknown) => boolean;
}

const widens = 'not supported yet; without it a session would be allowed to do more';

/** Keys that the schema knows and the gateway does not act on yet. Implementing a feature removes its row. */
export const notBuiltYet: readonly NotBuiltRow[] = [
  { key: 'servers.*.tools.confirm', refuse: widens, harmless: (value) => Array.isArray(value) && value.length === 0 },
  { key: 'listen.tls', refuse: 'not supported yet; without it data would be sent unencrypted' },
];

type NotBuiltKey = ConfigProblem & { readonly refused: boolean };
type WrittenKey = { readonly path: KeyPath; readonly value: unknown };

function listWorkspaceEntries({ workspaces, workspacePatterns }: ConfigDraft) {
  return [...Object.entries(workspaces), ...Object.entries(workspacePatterns)];
}

/** Finds variables that no workspace may set for a server: the context, and those that decide which program runs. */
export function findOverrideProblems(config: ConfigDraft): ConfigProblem[] {
  return listWorkspaceEntries(config).flatMap(([slug, { env }]) =>
    Object.entries(env).flatMap(([server, variables]) =>
      Object.entries(variables).flatMap(([variable, value]): ConfigProblem[] => {
        const message = whyOverrideRefused(variable, value, config.context.envPrefixes);
        return message === undefined
          ? []
          : [{ path: ['workspaces', slug, 'env', server, variable], at: 'key', message }];
      }),
    ),
  );
}

/** Finds mistakes in patterns of workspaces. Names must not clash, whichever folders there will be. */
export function findPatternProblems(config: ConfigDraft): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const [name, { path }] of Object.entries(config.workspaces)) {
    if (path !== undefined && /(?:^|\/)\*$/.test(path)) {
      const message = 'a path that ends in "/*" needs a name with "*", such as "src-*"';
      problems.push({ path: ['workspaces', name, 'path'], at: 'value', message });
    }
  }
  const names = Object.keys(config.workspacePatterns);
  for (const [index, name] of names.entries()) {
    const { path, backend, create } = config.workspacePatterns[name] as ConfigDraft['workspaces'][string];
    const addProblem = (key: string, message: string) =>
      problems.push({ path: ['workspaces', name, key], at: 'value', message });
    if (backend !== 'local') addProblem('backend', 'only the backend "local" has folders for a pattern');
    else if (path === undefined || !/^(?:[^*]*\/)?\*$/.test(path))
      addProblem('path', 'the path of a pattern ends in "/*" and has no other "*", such as ~/src/*');
    if (create) addProblem('create', 'a pattern makes no folders');
    const clash = names.slice(0, index).find((other) => canClash(name, other));
    if (clash === undefined) continue;
    const message = `"${clash}" and "${name}" could make two workspaces of one name`;
    problems.push({ path: ['workspaces', name], at: 'key', message });
  }
  return problems;
}

/** Tells whether two patterns fit one name. */
function canClash(one: string, other: string): boolean {
  const [[start = '', end = ''], [otherStart = '', otherEnd = '']] = [one.split('*'), other.split('*')];
  const isSameStart = start.startsWith(otherStart) || otherStart.startsWith(start);
  return isSameStart && (end.endsWith(otherEnd) || otherEnd.endsWith(end));
}

/** Finds workspaces that roles name and that do not exist. They grant nothing, so this is a warning. */
export function findUnknownWorkspaces(config: ConfigDraft): ConfigProblem[] {
  const known = Object.keys(config.workspaces);
  return config.auth.jwt.flatMap(({ roles }, index) =>
    Object.entries(roles?.map ?? {}).flatMap(([role, { workspaces = [] }]) =>
      workspaces.flatMap((name, at): ConfigProblem[] => {
        if (known.includes(name) || fitsPattern(config, name)) return [];
        const path = ['auth', 'jwt', index, 'roles', 'map', role, 'workspaces', at];
        return [{ path, at: 'value', message: `there is no workspace "${name}"${suggestClosest(name, known)}` }];
      }),
    ),
  );
}

/** Finds unknown servers that workspaces name; a warning, since an included file may be missing for now. */
export function findUnknownServers(config: ConfigDraft): ConfigProblem[] {
  const known = Object.keys(config.servers);
  const problemIfUnknown = (path: ConfigProblem['path'], at: ConfigProblem['at'], name: string): ConfigProblem[] => {
    if (Object.hasOwn(config.servers, name)) return [];
    return [{ path, at, message: `there is no server "${name}"${suggestClosest(name, known)}` }];
  };
  return listWorkspaceEntries(config).flatMap(([slug, { capabilities, env }]) => {
    const listed = typeof capabilities.servers === 'string' ? [] : capabilities.servers;
    return [
      ...listed.flatMap((name, index) =>
        problemIfUnknown(['workspaces', slug, 'capabilities', 'servers', index], 'value', name),
      ),
      ...Object.keys(env).flatMap((name) => problemIfUnknown(['workspaces', slug, 'env', name], 'key', name)),
    ];
  });
}

/**
 * Finds variables that an imported server may not set. Without the mark "imported" the server is the operator's own.
 */
export function findImportedProblems(config: ConfigDraft): ConfigProblem[] {
  return Object.entries(config.servers).flatMap(([name, server]) => {
    if (server.source !== 'imported' || server.transport !== 'stdio') return [];
    return Object.entries(server.env).flatMap(([variable, value]): ConfigProblem[] => {
      const refused = whyVariableRefused(variable, value, config.context.envPrefixes);
      if (refused === undefined) return [];
      const message = `${refused}; remove "imported" to make the server your own`;
      return [{ path: ['servers', name, 'env', variable], at: 'key', message }];
    });
  });
}

/** Finds invalid conditions at the start rather than at the first call that needs them. */
export async function findRuleProblems(config: ConfigDraft): Promise<ConfigProblem[]> {
  if (config.rules.every(({ when }) => when === undefined)) return [];
  const compile = await loadConditions();
  return config.rules.flatMap(({ when }, index): ConfigProblem[] => {
    const found = when === undefined ? undefined : compile(when);
    if (found === undefined || !('problem' in found)) return [];
    return [{ path: ['rules', index, 'when'], at: 'value', message: found.problem }];
  });
}

/** Finds rules that match no tool; a warning, since an included file may be missing for now. */
export function findMisplacedPatterns(config: ConfigDraft): ConfigProblem[] {
  const servers = Object.keys(config.servers);
  const problems: ConfigProblem[] = [];
  const addWarning = (path: ConfigProblem['path'], message: string) => problems.push({ path, at: 'value', message });
  for (const [index, { allow, deny }] of config.rules.entries()) {
    for (const text of allow ?? deny ?? []) {
      const pattern = compileToolPattern(text);
      // Ambit's own tools have no server prefix.
      if (['session_', ...servers.map((name) => `${name}__`)].some(pattern.mayFollow)) continue;
      const suggestion = suggestClosest(text.split('__', 1)[0] as string, servers, '__…');
      addWarning(
        ['rules', index, allow === undefined ? 'deny' : 'allow'],
        `"${text}" matches no tool of any server${suggestion}`,
      );
    }
  }
  for (const [name, { tools }] of Object.entries(config.servers)) {
    for (const key of ['allow', 'deny'] as const) {
      for (const text of tools[key]) {
        if (!text.startsWith(`${name}__`)) continue;
        addWarning(['servers', name, 'tools', key], `tool names here have no "${name}__" prefix`);
      }
    }
  }
  return problems;
}

function findWrittenKeys(value: unknown, segments: readonly string[], path: KeyPath): WrittenKey[] {
  const [segment, ...rest] = segments;
  if (segment === undefined || !isMap(value)) return [];
  const keys = segment === '*' ? Object.keys(value) : Object.hasOwn(value, segment) ? [segment] : [];
  return keys.flatMap((key) => {
    const here = [...path, key];
    return rest.length === 0 ? [{ path: here, value: value[key] }] : findWrittenKeys(value[key], rest, here);
  });
}

/** Finds the keys of a file, before defaults, that are known but not implemented. */
export function findNotBuilt(file: unknown, rows: readonly NotBuiltRow[] = notBuiltYet): NotBuiltKey[] {
  return rows.flatMap((row) =>
    findWrittenKeys(file, row.key.split('.'), [])
      .filter(({ value }) => row.harmless?.(value) !== true)
      .map(({ path }) => {
        return {
          path,
          at: 'key',
          refused: row.refuse !== undefined,
          message: row.refuse ?? 'not supported yet, ignored',
        };
      }),
  );
}

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
