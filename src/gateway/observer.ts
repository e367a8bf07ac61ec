import type { Log } from '../observability/log/log.ts';
import { createMetadataFields } from '../observability/log/session-metadata.ts';
import type { Metrics } from '../observability/metrics/metrics.ts';
import type { OnInstall } from '../sandbox/packages/package-store.ts';
import type { Session } from '../sessions/session.ts';
import type { ProcessWatch } from '../upstreams/links/stdio/server-process.ts';

/** Reports sessions and processes to logs and metrics, so that both agree. */
export interface Observer {
  sessionOpened(session: Session & { readonly metadata?: Readonly<Record<string, unknown>> }): void;
  sessionRestricted(session: Session): void;
  sessionEnded(session: Session, reason: string): void;
  processOf(server: string, sessionId: string | undefined): ProcessWatch;
}

/** A command without a gateway has no metrics. */
export function createObserver(log: Log, metrics?: Metrics): Observer {
  return {
    sessionOpened(session) {
      metrics?.sessionOpened(session.trustLevel);
      log.debug?.('session opened', { ...sessionFields(session), ...createMetadataFields(session.metadata ?? {}) });
    },
    sessionRestricted(session) {
      log.debug?.('session restricted', sessionFields(session));
    },
    sessionEnded(session, reason) {
      const seconds = (Date.now() - session.createdAt) / 1000;
      metrics?.sessionEnded(session.id, reason, seconds);
      log.debug?.('session ended', { session: session.id, user: session.userId, reason, seconds: Math.round(seconds) });
    },

    processOf(server, session) {
      const whose = { server, session };
      return {
        spawned: () => metrics?.processSpawned(server),
        ready(pid, ms, again) {
          metrics?.processReady(server, ms / 1000, again);
          log.debug?.('server started', { ...whose, pid, ms: Math.round(ms), again: again || undefined });
        },
        failed(error) {
          metrics?.processFailed(server);
          log.warn('server not started', { ...whose, error: String(error) });
        },
        ended(pid, exit) {
          metrics?.processEnded(server);
          log.debug?.('server ended', { ...whose, pid, ...exitFields(exit) });
        },
        lost(pid, exit) {
          log.warn('server lost', { ...whose, pid, ...exitFields(exit) });
        },
      };
    },
  };
}

/** Logs installations of packages. The error of a failed one is logged with its server. */
export function logInstalls(log: Log): OnInstall {
  const startedAt = new Map<string, number>();
  return ({ package: name, state }) => {
    const began = startedAt.get(name);
    if (state === 'started') {
      startedAt.set(name, performance.now());
      log.info('package installing', { package: name });
      return;
    }
    startedAt.delete(name);
    if (state === 'installed')
      log.info('package installed', {
        package: name,
        seconds: Math.round((performance.now() - (began ?? performance.now())) / 1000),
      });
  };
}

function exitFields({ code, signal, reason }: Parameters<ProcessWatch['ended']>[1]) {
  return { code: code ?? undefined, signal: signal ?? undefined, reason };
}

/** Permissions are logged only at debug level. */
function sessionFields(session: Session) {
  return {
    session: session.id,
    user: session.userId,
    workspace: session.workspaceId,
    trust: session.trustLevel,
    ttl: session.ttlSeconds,
    servers: session.servers?.join(','),
    permissions: session.permissions.join(','),
  };
}
