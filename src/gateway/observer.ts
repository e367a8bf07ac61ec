import { isAmbitError } from '../errors.ts';
import type { Log } from '../observability/log/log.ts';
import { createMetadataFields } from '../observability/log/safe-log.ts';
import type { Metrics } from '../observability/metrics/metrics.ts';
import type { OnInstall } from '../sandbox/packages/package-store.ts';
import type { Session } from '../sessions/session.ts';
import type { HttpServer } from '../upstreams/definition.ts';
import type { ProcessWatch } from '../upstreams/links/stdio/server-process.ts';
import { readStderrLines, StderrLines } from '../upstreams/links/upstream-errors.ts';
import type { ServerActivity } from './server-activity.ts';

/** Hears of the servers of a gateway as they run, beside log and metrics. */
export interface ServerListener {
  /** A line of stderr, without secrets and control characters. */
  onStderr(server: string, line: string): void;
  /** The server has written its first message since a start. */
  onSpoke(server: string): void;
  /** Returns true if the listener reports the failure itself, so that it is not logged too. */
  onFailed(server: string, error: unknown): boolean;
}

/** Reports sessions and processes to logs and metrics, so that both agree. */
export interface Observer {
  sessionOpened(session: Session & { readonly metadata?: Readonly<Record<string, unknown>> }): void;
  sessionRestricted(session: Session): void;
  sessionEnded(session: Session, reason: string): void;
  processOf(server: string, sessionId: string | undefined): ProcessWatch;
  /** A call to a server over HTTP has failed. */
  serverUnreached(server: HttpServer, sessionId: string, error: Error): void;
  /** A call to a server over HTTP was answered. */
  serverReached(server: HttpServer): void;
}

/** The time in which the same failure of a server is logged once: a model may call it again and again. */
const quietMs = 60_000;
const shortIdLength = 8;

/** A command without a gateway has no metrics. Lines of stderr that a listener shows are not logged again. */
export function createObserver(
  log: Log,
  metrics?: Metrics,
  listener?: ServerListener,
  activity?: ServerActivity,
): Observer {
  const stderrField = (lines: readonly string[]) =>
    lines.length === 0 || listener !== undefined ? {} : { stderr: lines };
  const unreached = new Map<string, { readonly message: string; readonly at: number }>();

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

    serverReached: ({ name }) => activity?.answered(name),
    serverUnreached({ name, url }, session, error) {
      if (!isAmbitError(error) || error.code !== 'UPSTREAM_FAILED') return;
      activity?.failed(name, error);
      const { message } = error;
      const last = unreached.get(name);
      if (last?.message === message && Date.now() - last.at < quietMs) return;
      unreached.set(name, { message, at: Date.now() });
      log.warn('server not reached', { server: name, session, host: url.host, ...describeError(error) });
    },

    processOf(server, session) {
      const whose = { server, session };
      return {
        spawned() {
          metrics?.processSpawned(server);
          activity?.spawned(server);
        },
        ready(pid, ms, again) {
          metrics?.processReady(server, ms / 1000, again);
          log.debug?.('server started', { ...whose, pid, ms: Math.round(ms), again: again || undefined });
        },
        spoke() {
          activity?.answered(server);
          listener?.onSpoke(server);
        },
        wrote(line, pid) {
          // The id of a session is not shown in full, even if the server writes it.
          const text = session === undefined ? line : line.replaceAll(session, session.slice(0, shortIdLength));
          activity?.logs.add(server, { sessionId: session, pid, text });
          listener?.onStderr(server, line);
        },
        garbled(line) {
          const hint = 'A server may write only MCP messages to stdout. It must write everything else to stderr.';
          log.warn('server output ignored', { ...whose, line, hint });
        },
        failed(error) {
          metrics?.processFailed(server);
          activity?.failed(server, error);
          if (listener?.onFailed(server, error) === true) return;
          const stderr = stderrField(readStderrLines(error));
          log.warn('server not started', { ...whose, ...describeError(error), ...stderr });
        },
        ended(pid, exit) {
          metrics?.processEnded(server);
          activity?.ended(server);
          log.debug?.('server ended', { ...whose, pid, ...exitFields(exit) });
        },
        lost(pid, exit, stderr) {
          activity?.failed(server, describeExit(server, exit));
          log.warn('server lost', { ...whose, pid, ...exitFields(exit), ...stderrField(stderr) });
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

const maxCauseLength = 1000;

/** Describes an error for the operator: with its hint, and with the cause, which callers do not see. */
function describeError(error: unknown) {
  if (!isAmbitError(error)) return { error: String(error) };
  const { message, hint, cause } = error;
  if (cause instanceof StderrLines) return { error: cause.plainMessage };
  return { error: message, hint, cause: cause === undefined ? undefined : String(cause).slice(0, maxCauseLength) };
}

function exitFields({ code, signal, reason }: Parameters<ProcessWatch['ended']>[1]) {
  return { code: code ?? undefined, signal: signal ?? undefined, reason };
}

function describeExit(server: string, { code, signal, reason }: Parameters<ProcessWatch['ended']>[1]): string {
  if (reason !== undefined) return `The server "${server}" was ended: ${reason}.`;
  return `The server "${server}" ended by itself ${signal === null ? `with code ${code}` : `by ${signal}`}.`;
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
