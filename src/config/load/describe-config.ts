import { existsSync } from 'node:fs';
import type { Config } from '../schema/schema.ts';
import { findWorkspace, listWorkspaces } from './workspace-folders.ts';

/** A workspace as the configuration declares it, for people. */
export interface WorkspaceSettings {
  readonly name: string;
  /** Null for backends without a folder. */
  readonly path: string | null;
  /** The pattern that makes it a workspace; null if it is configured by its name. */
  readonly pattern: string | null;
  readonly trust: 'direct' | 'sandboxed';
  readonly backend: 'local' | 'container' | 'database';
  readonly isolation: 'shared' | 'worktree' | 'copy';
  readonly git: 'read' | 'write';
  readonly servers: 'all' | 'none' | readonly string[];
  /** Whether the folder exists; null for backends without a folder. */
  readonly exists: boolean | null;
}

/** Describes a workspace of the configuration; undefined if there is none of this name. */
export function describeWorkspace(config: Config, name: string): WorkspaceSettings | undefined {
  const found = findWorkspace(config, name);
  if (found === undefined) return undefined;
  const { path, pattern, trust, backend, isolation, git, capabilities } = found;
  return {
    name,
    path: path ?? null,
    pattern: pattern ?? null,
    ...{ trust, backend, isolation, git, servers: capabilities.servers },
    exists: path === undefined ? null : existsSync(path),
  };
}

/** Describes all workspaces, and the folders of patterns that are none. */
export function describeWorkspaces(
  config: Config,
): { readonly workspaces: readonly WorkspaceSettings[] } & Pick<
  ReturnType<typeof listWorkspaces>,
  'leftOut' | 'incomplete'
> {
  const { names, leftOut, incomplete } = listWorkspaces(config);
  return { workspaces: names.flatMap((name) => describeWorkspace(config, name) ?? []), leftOut, incomplete };
}

/** The restrictions on the tools of a server. Patterns match the own names of its tools. */
export interface ToolRestrictions {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** The permission that a session needs, by pattern. */
  readonly permissions: Readonly<Record<string, string>>;
  /** Patterns of the tools that a person confirms before each call. */
  readonly confirm: readonly string[];
  /** The tool of Ambit to use instead, by pattern. */
  readonly instead: Readonly<Record<string, string>>;
  readonly hideReplaced: boolean;
}

/** Describes the restrictions on the tools of a server; undefined if there is no server of this name. */
export function describeRestrictions({ servers }: Config, name: string): ToolRestrictions | undefined {
  const tools = Object.hasOwn(servers, name) ? servers[name]?.tools : undefined;
  if (tools === undefined) return undefined;
  const { allow, deny, permissions, confirm, instead, hideReplaced } = tools;
  return { allow, deny, permissions: { ...permissions }, confirm, instead: { ...instead }, hideReplaced };
}

/** Describes the rules, and what the servers restrict by themselves. */
export function describeRules(config: Config) {
  const rules = config.rules.map(({ id, allow, deny, when }) => ({
    id,
    effect: deny === undefined ? ('allow' as const) : ('deny' as const),
    tools: deny ?? allow ?? [],
    when: when ?? null,
  }));
  const servers = Object.entries(config.servers)
    .filter(([, { disabled }]) => !disabled)
    .map(([server]) => ({ server, ...(describeRestrictions(config, server) as ToolRestrictions) }));
  return { rules, servers };
}
