import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Session } from '../sessions/session.ts';
import type { Callers } from '../upstreams/caller.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Tenancy } from '../upstreams/kept-links.ts';
import type { Links } from '../upstreams/links.ts';
import { isWide, type Scope, scopeFor } from '../upstreams/process-key.ts';
import type { Aggregate } from './aggregate/aggregate.ts';
import { announceChange } from './announce.ts';
import type { Resolution } from './resolution.ts';

export interface KeptParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly aggregate: Aggregate;
  readonly resolution: Resolution;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
}

/** What is live of a session follows its bounds when they change. */
export interface KeepInBounds {
  /** The session was narrowed: what no longer fits ends at once, calls under way included. */
  restricted(session: Session, before: Session): Promise<void>;
  /** To be called before another configuration is in place; the function returned, after. */
  beforeReload(sessions: readonly Session[], config: Config): (next: Config) => void;
}

export function createKeepInBounds({ links, callers, aggregate, resolution, servers }: KeptParts): KeepInBounds {
  function tellClients(sessionId: string): void {
    announceChange(callers, [], sessionId);
    aggregate.boundsChanged(sessionId);
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

  return {
    async restricted(session, before) {
      const ended = [...servers().values()].map((server) => endFor(session, server, before));
      tellClients(session.id);
      await Promise.all(ended);
    },

    beforeReload(sessions, config) {
      const were = sessions.map((session) => ({ session, available: resolution.available(session) }));
      return (next) => {
        for (const { session, available } of were) {
          const now = new Set(namesOf(resolution.available(session)));
          for (const server of available) {
            const scope = scopeFor(server, session);
            const elsewhere = !isDeepStrictEqual(placeOf(session, scope, config), placeOf(session, scope, next));
            // What others use too stays for them: this session is refused before its call gets there.
            const gone = !now.has(server.name) && !isWide(scope);
            if (elsewhere || gone) links.retire(server.name, usedBy(session, scope));
          }
          if (available.length !== now.size || available.some(({ name }) => !now.has(name))) tellClients(session.id);
        }
      };
    },
  };
}

function usedBy({ id, workspaceId }: Session, scope: Scope): (tenancy: Tenancy) => boolean {
  return (tenancy) => tenancy.users.has(id) && (scope === 'shared' || tenancy.workspaceId === workspaceId);
}

function namesOf(servers: readonly ServerDefinition[]): string[] {
  return servers.map(({ name }) => name);
}

/** All of the configuration that a process finds in its environment, beside its own server's. */
function placeOf({ workspaceId }: Session, scope: Scope, { context, workspaces }: Config): unknown {
  const workspace = workspaceId === undefined || scope === 'shared' ? undefined : workspaces[workspaceId];
  return [context.envPrefixes, workspace?.path, workspace?.env];
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
