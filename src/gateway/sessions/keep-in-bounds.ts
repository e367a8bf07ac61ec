import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import { inWorkspace } from '../../sessions/session-views.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { ToolBounds } from '../../upstreams/access/tool-bounds.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Tenancy } from '../../upstreams/links/kept-links.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { isWide, type Scope, scopeFor } from '../../upstreams/links/process-key.ts';
import { announceChange } from '../lists/announce.ts';
import type { ToolListeners } from '../lists/tool-listeners.ts';
import type { Aggregate } from '../routing/aggregate.ts';
import { ownServer } from '../routing/own-tools.ts';

export interface KeptParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly aggregate: Aggregate;
  readonly resolution: Resolution;
  readonly tools: ToolBounds;
  readonly listeners: ToolListeners;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
}

/** What is live of a session follows its bounds when they change. */
export interface KeepInBounds {
  /** The session was narrowed: what no longer fits ends at once, calls under way included. */
  restricted(session: Session, before: Session): Promise<void>;
  /** To be called before another configuration is in place; the function returned, after. */
  beforeReload(sessions: readonly Session[], config: Config): (next: Config) => void;
}

export function createKeepInBounds(parts: KeptParts): KeepInBounds {
  const { links, callers, aggregate, resolution, tools, listeners, servers } = parts;

  /** Those of all servers, and those of the servers that show other tools now. */
  function tellClients(sessionId: string, shownAnew: readonly string[]): void {
    announceChange(callers, shownAnew, (caller) => caller.sessionId === sessionId);
    aggregate.boundsChanged(sessionId);
    listeners.tell(sessionId, shownAnew);
  }

  function endFor(session: Session, server: ServerDefinition, before: Session): Promise<void> | undefined {
    const { id, trustLevel } = session;
    if (resolution.find(session, server.name).server === undefined) {
      for (const caller of callers.ofServer(server.name)) if (caller.sessionId === id) callers.end(caller);
      return links.endSession(id, outOfBounds(server.name), server.name);
    }
    if (trustLevel === before.trustLevel) return undefined;
    // What was started or opened with more trust than the session has now must not serve it any longer.
    if (server.kind === 'stdio') return links.endSession(id, startedWithMore(server.name), server.name);
    links.retire(server.name, ({ users }) => users.has(id));
    return undefined;
  }

  /** A session's record, and how it stands in each workspace it works in. */
  function standings(session: Session): Session[] {
    if (session.workspaceId !== undefined) return [session];
    return [session, ...[...links.workspacesOf(session.id)].map((id) => inWorkspace(session, id))];
  }

  return {
    async restricted(session, before) {
      const ended = [...servers().values()].map((server) => endFor(session, server, before));
      const names = [...servers().keys(), ownServer];
      const [were, are] = [before, session].map((each) => tools.outlook(each, names));
      // Where its clients choose the workspace, the record alone does not say what each of them is shown.
      const roams = session.workspaceId === undefined;
      const narrowed = roams ? names.filter((name) => tools.of(name) !== undefined) : differing(were, are);
      tellClients(session.id, narrowed);
      await Promise.all(ended);
    },

    beforeReload(sessions, config) {
      const were = sessions.flatMap(standings).map((session) => {
        const available = resolution.available(session);
        return { session, available, outlook: tools.outlook(session, [...namesOf(available), ownServer]) };
      });
      return (next) => {
        for (const { session, available, outlook } of were) {
          const now = new Set(namesOf(resolution.available(session)));
          for (const server of available) {
            const scope = scopeFor(server, session, standsApart(session, config));
            const elsewhere = !isDeepStrictEqual(placeOf(session, scope, config), placeOf(session, scope, next));
            // What others use too stays for them: this session is refused before its call gets there.
            const gone = !now.has(server.name) && !isWide(scope);
            if (elsewhere || gone) links.retire(server.name, usedBy(session, scope));
          }
          const shownAnew = differing(outlook, tools.outlook(session, [...outlook.keys()]));
          const others = available.length !== now.size || available.some(({ name }) => !now.has(name));
          if (others || shownAnew.length > 0) tellClients(session.id, shownAnew);
        }
      };
    },
  };
}

function differing(
  before: ReadonlyMap<string, string> | undefined,
  after: ReadonlyMap<string, string> | undefined,
): string[] {
  return [...(after ?? [])].filter(([name, outlook]) => before?.get(name) !== outlook).map(([name]) => name);
}

function usedBy({ id, workspaceId }: Session, scope: Scope): (tenancy: Tenancy) => boolean {
  return (tenancy) => tenancy.users.has(id) && (scope === 'shared' || tenancy.workspaceId === workspaceId);
}

function namesOf(servers: readonly ServerDefinition[]): string[] {
  return servers.map(({ name }) => name);
}

/** All of the configuration that a process finds in its environment or its sandbox, beside its own server's. */
function placeOf({ workspaceId, trustLevel }: Session, scope: Scope, { context, workspaces }: Config): unknown {
  const workspace = workspaceId === undefined || scope === 'shared' ? undefined : workspaces[workspaceId];
  const guarded = trustLevel === 'direct' ? [] : [workspace?.git, workspace?.files.keep, workspace?.files.open];
  return [context.envPrefixes, workspace?.path, workspace?.env, workspace?.isolation, ...guarded];
}

function standsApart({ workspaceId }: Session, { workspaces }: Config): boolean {
  return workspaceId !== undefined && (workspaces[workspaceId]?.isolation ?? 'shared') !== 'shared';
}

function outOfBounds(name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The session was restricted: the server "${name}" is no longer available to it.`,
  });
}

function startedWithMore(name: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The session was restricted while the server "${name}" was at work with more trust; its process has ended.`,
    hint: 'Try again: what starts now starts within the new bounds.',
    rule: 'session.trustLevel',
  });
}
