import { whyVariableRefused } from '../../context/for-tools/refused-variables.ts';
import { whyOverrideRefused } from '../../context/for-tools/session-context.ts';
import { loadConditions } from '../../rules/load-conditions.ts';
import { compileToolPattern } from '../../rules/tool-pattern.ts';
import type { ConfigProblem, KeyPath } from '../explain/problem.ts';
import { suggestClosest } from '../explain/suggest.ts';
import { fitsPattern } from '../load/workspace-folders.ts';
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
