import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { isInside, resolveSymlinks } from '../../config/load/resolve-symlinks.ts';
import { isFolder, listFolderNames } from '../../config/load/workspace-folders.ts';
import { workspaceSlug } from '../../config/schema/schema-parts.ts';
import { filesSchema } from '../../config/schema/schema-workspace.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import { isTrustAtMost, type TrustLevel } from '../../rules/trust-level.ts';
import { checkTrust } from '../../sessions/check-fields.ts';
import { missingWorkspaceError, suggestWorkspaces } from '../../sessions/missing-workspace.ts';
import type { Session } from '../../sessions/session.ts';
import { applyAnnounced, findAllowedWorkspace, type WorkspaceNames } from '../../sessions/workspace-choice.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { WorkspaceBackend } from '../../workspaces/backends/backend.ts';
import { openDatabase } from '../../workspaces/backends/database/open-database.ts';
import { openLocal } from '../../workspaces/backends/local/open-local.ts';
import { createCodeIndexes } from '../../workspaces/codebase/code-indexes.ts';
import type { EmbeddingProvider } from '../../workspaces/codebase/embeddings.ts';
import { createPathRules, type PathRules } from '../../workspaces/path-guard.ts';
import type { FileAccessParts } from '../../workspaces/tools/file-access.ts';
import { createWorkspaces, type WorkspaceStorage } from '../../workspaces/workspaces.ts';
import { createWriteQuota } from '../../workspaces/write-quota.ts';
import type { WorkspaceChoices } from '../sdk/current-session.ts';
import type { ResolvedSession } from './resolved-session.ts';
import { hookMs } from './safe-hooks.ts';
import type { OpenSessionLayer } from './session-layer.ts';

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
interface KnownWorkspace {
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
function requireWorkspace(
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

/** A session in the workspace of one call. */
export interface PlacedSession {
  readonly session: Session;
  readonly path: string | undefined;
  /** Tells the workspace apart from others, also from those with the same slug. */
  readonly workspaceKey: string | undefined;
  readonly choices: WorkspaceChoices;
}

/**
 * Puts a session into the workspace that its client announced. If it may not use that one, the call goes on without a
 * workspace, and tools that need one say so.
 */
export async function placeInWorkspace(
  layer: OpenSessionLayer,
  { workspaces: allowed, selectable = null, endsWithCall }: ResolvedSession,
  session: Session,
  announced: string | undefined,
): Promise<PlacedSession> {
  const set = await layer.findWorkspaces(session);
  const choice = announced === undefined ? undefined : applyAnnounced(set, session, announced, selectable);
  if (choice !== undefined && choice.outcome !== 'used' && !(choice.outcome === 'unavailable' && endsWithCall))
    layer.logIgnoredWorkspaceOnce(session, announced as string);
  const unavailable = choice?.session.unavailableWorkspace;
  const placed = unavailable === undefined ? (choice?.session ?? session) : { ...session, workspaceId: undefined };
  const workspace = requireWorkspace(set, placed);
  return {
    session: placed,
    path: workspace?.path,
    workspaceKey: workspace?.key ?? placed.workspaceId,
    choices: {
      find(name) {
        const id = findAllowedWorkspace(set, session, name, allowed);
        return id === undefined ? undefined : { id, path: set.get(id)?.path };
      },
      suggest: () => suggestWorkspaces(set, session, allowed, unavailable),
      unavailable,
      logMismatch: (chosen, own) =>
        layer.log.info('another workspace was given', { session: session.id, chosen, workspace: own }),
    },
  };
}

/** Adds to the error of a tool without a workspace which ones there are. */
export function explainMissingWorkspace(
  error: unknown,
  { unavailable, suggest }: WorkspaceChoices,
  how: { readonly key: string; readonly listsSessions: boolean },
): unknown {
  if (!isAmbitError(error) || error.code !== 'WORKSPACE_REQUIRED') return error;
  return missingWorkspaceError({ unavailable, available: suggest(), ...how });
}

/** Opens the files of a workspace. The rules say which paths sessions may not read or write. */
export type OpenBackend = (
  workspace: { readonly id: string; readonly path: string | undefined },
  rules: PathRules,
) => WorkspaceBackend | Promise<WorkspaceBackend>;

/** The file tools: where files are stored, and what sessions may do with them. The limits are those of `workspaces.*.files`. */
export interface FileOptions {
  /** `local` (default): the folder of the workspace; `database`: the store; or a function that opens a backend. */
  readonly backend?: 'local' | 'database' | OpenBackend | undefined;
  readonly hide?: readonly string[] | undefined;
  readonly keep?: readonly string[] | undefined;
  readonly open?: readonly string[] | undefined;
  readonly fileBytes?: number | undefined;
  readonly sessionBytes?: number | undefined;
  readonly sessionEntries?: number | undefined;
  readonly durable?: boolean | undefined;
  /** Lets `session_codebase_search` find passages by meaning too. */
  readonly embeddings?: EmbeddingProvider | undefined;
}

/** The files of all sessions of a server, for the file tools. */
export interface LayerFiles extends FileAccessParts {
  /** Called when the session has ended. */
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

interface LayerFilesParts {
  readonly store: SessionStore;
  readonly storeDir: string | undefined;
  readonly findWorkspaces: FindWorkspaces;
  /** False if a workspace that is a link is refused. */
  readonly followsLinks: boolean;
  readonly log: Log;
}

/** Reads the options. Throws if one of them is invalid. */
export function readFileOptions(given: true | FileOptions): {
  readonly storage: WorkspaceStorage;
  readonly open?: OpenBackend;
} {
  const { backend = 'local', embeddings: _, ...limits } = given === true ? {} : given;
  const read = filesSchema.safeParse(limits);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new AmbitError('CONFIG_INVALID', {
      what: `The option files${issue === undefined ? '' : `.${issue.path.join('.')}: ${issue.message}`}.`,
      hint: 'Correct the option.',
    });
  }
  if (typeof backend === 'function') return { storage: { backend: 'local', files: read.data }, open: backend };
  if (backend === 'local' || backend === 'database') return { storage: { backend, files: read.data } };
  throw new AmbitError('CONFIG_INVALID', { what: 'files.backend must be "local", "database" or a function.' });
}

export function createLayerFiles(given: true | FileOptions, parts: LayerFilesParts): LayerFiles {
  const { store, storeDir, findWorkspaces, followsLinks, log } = parts;
  const { storage, open } = readFileOptions(given);
  const { embeddings } = given === true ? {} : given;
  const rules = createPathRules(storage.files);
  const { durable, fileBytes } = storage.files;
  const quota = createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => (await store.get(id)) === undefined,
  });

  async function findKnown(session: Session): Promise<KnownWorkspace | undefined> {
    return requireWorkspace(await findWorkspaces(session), session);
  }

  /** Stores files under the key of the workspace, because several workspaces may have one slug. */
  function storageFor({ id, key }: KnownWorkspace): WorkspaceStorage {
    return key === id ? storage : { ...storage, files: { ...storage.files, id: key } };
  }

  const indexes = createCodeIndexes({ dataDir: undefined, log, embeddings });
  const workspaces = createWorkspaces({
    async find(_id, session) {
      const known = await findKnown(session);
      return known === undefined ? undefined : storageFor(known);
    },
    folderFor: async (session) => (await findKnown(session))?.path,
    async open({ id, folder, workspace }) {
      if (open !== undefined) return open({ id, path: folder }, rules);
      const treeId = workspace.files.id === undefined ? id : `${id}\0${workspace.files.id}`;
      if (storage.backend === 'database') return openDatabase(store.documents, treeId, { rules, fileBytes });
      if (folder === undefined) throw new AmbitError('WORKSPACE_UNAVAILABLE');
      assertOutside(storeDir, folder);
      try {
        return openLocal(folder, { rules, durable, fileBytes, followsLinks });
      } catch (error) {
        const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
        log.warn('workspace cannot be opened', { workspace: id, error: String(cause) });
        throw error;
      }
    },
    quota,
    onChange: indexes.noteChange,
  });
  return {
    workspaces,
    indexes,
    onResolution({ correlationId, sessionId, workspaceId, ...resolution }) {
      log.debug?.('path resolved', {
        session: sessionId,
        correlation: correlationId,
        workspace: workspaceId,
        ...resolution,
      });
    },
    forget: quota.forget,
    async close() {
      await indexes.close();
      await workspaces.close();
    },
  };
}

/** Refuses a workspace that contains the store: an agent could rewrite its own session there. */
function assertOutside(storeDir: string | undefined, folder: string): void {
  if (storeDir === undefined) return;
  const [kept = storeDir, real = folder] = [storeDir, folder].map((path) => resolveSymlinks(path).at(-1));
  if (!isInside(kept, real)) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: 'The folder of the sessions lies in a workspace, where agents could change it.',
    hint: 'The author of this server must set "storeDir" to a folder outside of all workspaces.',
  });
}
