import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { isFolder, listFolderNames } from '../../config/load/workspace-folders.ts';
import { workspaceSlug } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import { isTrustAtMost, type TrustLevel } from '../../rules/trust-level.ts';
import { checkTrust } from '../../sessions/check-fields.ts';
import type { WorkspaceNames } from '../../sessions/workspace-choice.ts';
import { hookMs } from './safe-hooks.ts';

/** A workspace of a server. */
export interface DeclaredWorkspace {
  /** The slug. */
  readonly id: string;
  /** The folder: an absolute path, or one that starts with `~/`. */
  readonly path?: string | undefined;
  /** The highest trust level of sessions in it. Default direct. */
  readonly trust?: TrustLevel | undefined;
}

export type WorkspaceCaller = Omit<ActingSession, 'id' | 'workspaceId'>;

type WorkspaceList = readonly (string | DeclaredWorkspace)[];

/**
 * The workspaces of a server. A list has workspaces or paths; the slug of a path is its last name. A root such as
 * `~/src/*` makes each folder in it a workspace. A function returns the workspaces of one caller, and is called for each
 * call.
 */
export type DeclaredWorkspaces =
  | WorkspaceList
  | string
  | ((caller: WorkspaceCaller) => WorkspaceList | Promise<WorkspaceList>);

/** A workspace with its path resolved. */
export interface KnownWorkspace {
  readonly id: string;
  readonly path: string | undefined;
  readonly trust: TrustLevel;
  /** Equal only for the same workspace: a function may give one slug to different folders. */
  readonly key: string;
}

/** The workspaces that exist for one caller. */
export interface WorkspaceSet extends WorkspaceNames {
  get(id: string): KnownWorkspace | undefined;
  /** True if the server declares no workspaces: then a slug is only a name. */
  readonly isUndeclared: boolean;
}

/** Returns the workspaces that exist for a caller. */
export type FindWorkspaces = (caller: WorkspaceCaller) => WorkspaceSet | Promise<WorkspaceSet>;

const maxListed = 1000;

/** Creates the function from the options. `extra` is a path that is a workspace although nothing declares it. */
export function createFindWorkspaces(
  declared: DeclaredWorkspaces | undefined,
  extra: string | undefined,
  log: Log,
): FindWorkspaces {
  const home = homedir();
  if (typeof declared === 'function') {
    return async ({ userId, agentId, trustLevel, permissions }) => {
      try {
        const list = readList(
          await withTimeout((async () => declared({ userId, agentId, trustLevel, permissions }))(), hookMs),
          home,
        );
        return createSet(list.map((each) => ({ ...each, key: JSON.stringify([each.id, each.path ?? { userId }]) })));
      } catch (cause) {
        log.warn('workspaces cannot be found', { error: String(cause) });
        throw new AmbitError('CONFIG_INVALID', {
          what: 'This server cannot tell which workspaces there are.',
          hint: 'The author of the server finds the reason in the log of the server.',
          cause,
        });
      }
    };
  }
  const fixed =
    typeof declared === 'string'
      ? createRootSet(declared, home)
      : createSet(
          readList(declared ?? (extra === undefined ? [] : [extra]), home),
          declared === undefined && extra === undefined,
        );
  return () => fixed;
}

function createSet(workspaces: readonly KnownWorkspace[], isUndeclared = false): WorkspaceSet {
  const byId = new Map(workspaces.map((each) => [each.id, each]));
  return {
    get: (id) => byId.get(id),
    list: () => [...byId.keys()].sort(),
    findIds(name) {
      if (byId.has(name)) return [name];
      if (!isAbsolute(name)) return [];
      const path = resolve(name);
      return workspaces.filter((each) => each.path === path).map(({ id }) => id);
    },
    trustOf: (id) => byId.get(id)?.trust ?? (isUndeclared ? 'direct' : 'sandboxed'),
    isUndeclared,
  };
}

/** Finds the workspace of a session. It may have been removed, or have become less trusted, since the session was opened. */
export function requireWorkspace(
  set: WorkspaceSet,
  { workspaceId, trustLevel }: Pick<ActingSession, 'workspaceId' | 'trustLevel'>,
): KnownWorkspace | undefined {
  if (workspaceId === undefined || set.isUndeclared) return undefined;
  const workspace = set.get(workspaceId);
  if (workspace === undefined) {
    throw new AmbitError('WORKSPACE_NOT_FOUND', { what: 'The workspace of the session does not exist.' });
  }
  if (isTrustAtMost(trustLevel, workspace.trust)) return workspace;
  throw new AmbitError('TRUST_REQUIRED', {
    what: `The session is "${trustLevel}", and its workspace allows at most "${workspace.trust}".`,
    rule: `workspaces.${workspaceId}.trust`,
  });
}

/** A set whose members are the folders in a root. Links are not followed: whoever can write there could link to anything. */
function createRootSet(pattern: string, home: string): WorkspaceSet {
  const root = pattern.endsWith('/*') ? expandPath(pattern.slice(0, -2), home) : undefined;
  if (root === undefined || root.includes('*')) {
    throw invalidError(
      `${JSON.stringify(pattern.slice(0, 200))} is not a root of workspaces`,
      'Write one like "~/src/*".',
    );
  }
  function get(id: string): KnownWorkspace | undefined {
    if (!workspaceSlug.test(id)) return undefined;
    const path = join(root as string, id);
    return isFolder(path) ? { id, path, trust: 'direct', key: id } : undefined;
  }
  return {
    get,
    list: () =>
      listFolderNames(root)
        .filter((name) => workspaceSlug.test(name))
        .sort()
        .slice(0, maxListed),
    findIds(name) {
      const path = isAbsolute(name) ? resolve(name) : undefined;
      const id = path === undefined ? name : dirname(path) === root ? basename(path) : '';
      return get(id) === undefined ? [] : [id];
    },
    trustOf: () => 'direct',
    isUndeclared: false,
  };
}

function readList(list: WorkspaceList, home: string): KnownWorkspace[] {
  if (!Array.isArray(list)) throw invalidError('the workspaces of this server are not a list');
  const known = list.map((each): KnownWorkspace => readWorkspace(each, home));
  const twice = known.find(({ id }, index) => known.findIndex((each) => each.id === id) !== index);
  if (twice !== undefined) throw invalidError(`two workspaces have the slug "${twice.id}"`);
  return known;
}

function readWorkspace(given: string | DeclaredWorkspace, home: string): KnownWorkspace {
  const { id, path, trust = 'direct' } = typeof given === 'string' ? { id: basename(given), path: given } : given;
  const expanded = path === undefined ? undefined : expandPath(path, home);
  if (path !== undefined && expanded === undefined) {
    throw invalidError(`the path ${JSON.stringify(String(path).slice(0, 200))} of a workspace is not absolute`);
  }
  if (typeof id !== 'string' || !workspaceSlug.test(id)) {
    const what = `"${String(id).slice(0, 63)}" is not a slug: it has 1 to 63 characters of a-z, 0-9, "-", "_" and "."`;
    throw invalidError(what, 'Declare the workspace as { id, path }.');
  }
  return { id, path: expanded, trust: checkTrust(trust), key: id };
}

/** Returns an absolute path; undefined for a relative one, which would depend on the working directory. */
function expandPath(path: unknown, home: string): string | undefined {
  if (typeof path !== 'string' || path.includes('\0')) return undefined;
  if (path === '~' || path.startsWith('~/')) return resolve(home, path.slice(2));
  return isAbsolute(path) ? resolve(path) : undefined;
}

function invalidError(what: string, hint = 'Correct the option "workspaces".'): AmbitError {
  return new AmbitError('CONFIG_INVALID', { what: `${what.charAt(0).toUpperCase()}${what.slice(1)}.`, hint });
}
