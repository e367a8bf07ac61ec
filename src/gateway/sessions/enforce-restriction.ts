import { isDeepStrictEqual } from 'node:util';
import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { inWorkspace } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { LinkUsers } from '../../upstreams/links/link-pool.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { isShared, type ProcessScope, processScopeFor } from '../../upstreams/links/process-key.ts';
import { announceListChange, type ToolListeners } from '../lists/announce-lists.ts';
import type { Aggregate } from '../routing/aggregate.ts';
import { ownServer } from '../routing/own-server.ts';

interface RestrictionParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly aggregate: Aggregate;
  readonly resolution: ServerResolution;
  readonly tools: ToolAccess;
  readonly listeners: ToolListeners;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
}

/** Ends running work of sessions that their limits no longer allow. */
export interface RestrictionEnforcer {
  /** Ends at once what a restricted session may no longer use, including running calls. */
  enforceRestriction(session: Session, before: Session): Promise<void>;
  /** Compares sessions before and after a reload. Call it before the reload and the returned function after it. */
  beforeReload(sessions: readonly Session[], config: Config): (next: Config) => void;
}

export function createRestrictionEnforcer(parts: RestrictionParts): RestrictionEnforcer {
  const { links, callers, aggregate, resolution, tools, listeners, servers } = parts;

  /** Announces the change to clients of all servers, and of the servers whose visible tools changed. */
  function announceToClients(sessionId: string, shownAnew: readonly string[]): void {
    announceListChange(callers, shownAnew, (caller) => caller.sessionId === sessionId);
    aggregate.announceChange(sessionId);
    listeners.announce(sessionId, shownAnew);
  }

  function endServerWork(session: Session, server: ServerDefinition, before: Session): Promise<void> | undefined {
    const { id, trustLevel } = session;
    if (resolution.find(session, server.name).server === undefined) {
      for (const caller of callers.byServer(server.name)) if (caller.sessionId === id) callers.end(caller);
      return links.endSession(id, notAvailableError(server.name), server.name);
    }
    if (trustLevel === before.trustLevel) return undefined;
    // A process or connection that was opened with more trust must not serve the session any longer.
    if (server.kind === 'stdio') return links.endSession(id, trustLoweredError(server.name), server.name);
    links.retire(server.name, ({ sessions: users }) => users.has(id));
    return undefined;
  }

  /** Lists the session record and its view in each workspace where it works. */
  function listWorkspaceViews(session: Session): Session[] {
    if (session.workspaceId !== undefined) return [session];
    return [session, ...[...links.workspacesOf(session.id)].map((id) => inWorkspace(session, id))];
  }

  return {
    async enforceRestriction(session, before) {
      const ended = [...servers().values()].map((server) => endServerWork(session, server, before));
      const names = [...servers().keys(), ownServer];
      const [were, are] = [before, session].map((each) => tools.visibleToolsKeys(each, names));
      // If clients choose the workspace, the record alone does not tell what they see.
      const roams = session.workspaceId === undefined;
      const narrowed = roams
        ? names.filter((name) => tools.policyFor(name) !== undefined)
        : findChangedNames(were, are);
      announceToClients(session.id, narrowed);
      await Promise.all(ended);
    },

    beforeReload(sessions, config) {
      const were = sessions.flatMap(listWorkspaceViews).map((session) => {
        const available = resolution.listAvailable(session);
        return { session, available, visible: tools.visibleToolsKeys(session, [...serverNames(available), ownServer]) };
      });
      return (next) => {
        for (const { session, available, visible } of were) {
          const now = new Set(serverNames(resolution.listAvailable(session)));
          for (const server of available) {
            const scope = processScopeFor(server, session, hasOwnFolder(session, config));
            const elsewhere = !isDeepStrictEqual(
              launchSettings(session, scope, config),
              launchSettings(session, scope, next),
            );
            // A shared link stays for others. Calls of this session are refused before they reach it.
            const gone = !now.has(server.name) && !isShared(scope);
            if (elsewhere || gone) links.retire(server.name, matchUser(session, scope));
          }
          const shownAnew = findChangedNames(visible, tools.visibleToolsKeys(session, [...visible.keys()]));
          const others = available.length !== now.size || available.some(({ name }) => !now.has(name));
          if (others || shownAnew.length > 0) announceToClients(session.id, shownAnew);
        }
      };
    },
  };
}

function findChangedNames(
  before: ReadonlyMap<string, string> | undefined,
  after: ReadonlyMap<string, string> | undefined,
): string[] {
  return [...(after ?? [])].filter(([name, key]) => before?.get(name) !== key).map(([name]) => name);
}

function matchUser({ id, workspaceId }: Session, scope: ProcessScope): (users: LinkUsers) => boolean {
  return (users) => users.sessions.has(id) && (scope === 'shared' || users.workspaceId === workspaceId);
}

function serverNames(servers: readonly ServerDefinition[]): string[] {
  return servers.map(({ name }) => name);
}

/** Returns the settings that a process gets in its environment or sandbox, beside those of its server. */
function launchSettings({ workspaceId, trustLevel }: Session, scope: ProcessScope, config: Config): unknown {
  const { context } = config;
  const workspace = scope === 'shared' ? undefined : findWorkspace(config, workspaceId);
  const guarded = trustLevel === 'direct' ? [] : [workspace?.git, workspace?.files.keep, workspace?.files.open];
  return [context.envPrefixes, workspace?.path, workspace?.env, workspace?.isolation, ...guarded];
}

function hasOwnFolder({ workspaceId }: Session, config: Config): boolean {
  return (findWorkspace(config, workspaceId)?.isolation ?? 'shared') !== 'shared';
}

function notAvailableError(name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The session was restricted: the server "${name}" is no longer available to it.`,
  });
}

function trustLoweredError(name: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The session was restricted while the server "${name}" was running with more trust; its process was ended.`,
    hint: 'Try again. The server starts with the new restrictions.',
    rule: 'session.trustLevel',
  });
}
