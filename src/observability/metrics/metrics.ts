import {
  type AnyMetricFamily,
  createCounters,
  createGauges,
  createHistograms,
  formatMetrics,
  observeValue,
  overflowLabel,
} from './instruments.ts';

export type QuotaScope = 'session' | 'user' | 'workspace';

/**
 * The metrics of the gateway. Labels have few values, all known beforehand: never an id, a user, a tool that an agent
 * named, or a server that is not configured.
 */
export interface Metrics {
  sessionOpened(trustLevel: string): void;
  sessionEnded(sessionId: string, reason: string, seconds: number): void;
  /** One finished exchange. `sessionId` joins the tool calls of a session, and is not exported. */
  called(server: string, method: string, outcome: string, seconds: number, sessionId: string | undefined): void;
  /** A request that gave its server no context about the session. */
  contextNotSent(server: string): void;
  cacheLookedUp(server: string, found: boolean): void;
  quotaRefused(scope: QuotaScope): void;
  processSpawned(server: string): void;
  /** The time until it could be called; `again` if the previous process had ended by itself. */
  processReady(server: string, seconds: number, again: boolean): void;
  processFailed(server: string): void;
  processEnded(server: string): void;
  httpRefused(status: number): void;
  /** Spans that reached their collector, or never will. */
  spans(result: 'sent' | 'dropped', count: number): void;
  /** Formats all metrics for Prometheus. */
  text(): Promise<string>;
}

interface MetricsOptions {
  isServer(name: string): boolean;
  /** Called when the metrics are read. */
  liveSessions(): number | Promise<number>;
}

const callSeconds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300];
const startSeconds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const lifeSeconds = [1, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400];
const callCounts = [0, 1, 2, 5, 10, 20, 50, 100, 500, 1000, 10_000];

const methods = new Set([
  'initialize',
  'ping',
  'server/discover',
  'tools/list',
  'tools/call',
  'prompts/list',
  'prompts/get',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'subscriptions/listen',
  'completion/complete',
  'logging/setLevel',
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
]);

export function createMetrics(options: MetricsOptions): Metrics {
  const opened = createCounters('ambit_sessions_opened_total', 'Sessions opened here, by trust level.', 'trust');
  const live = createGauges('ambit_sessions_live', 'Sessions that are live now.');
  const ended = createCounters('ambit_sessions_ended_total', 'Sessions that ended here, and why.', 'reason');
  const lives = createHistograms('ambit_session_duration_seconds', 'How long sessions lived.', lifeSeconds);
  const perSession = createHistograms('ambit_session_calls', 'Tool calls of a session here, when it ends.', callCounts);
  const calls = createCounters('ambit_calls_total', 'Exchanges, and how they ended.', 'server', 'method', 'outcome');
  const durations = createHistograms('ambit_call_duration_seconds', 'How long exchanges took.', callSeconds, 'server');
  const withoutContext = createCounters(
    'ambit_calls_without_context_total',
    'Requests that told their server nothing about the session.',
    'server',
  );
  const cache = createCounters('ambit_cache_lookups_total', 'Looks into the result cache.', 'server', 'result');
  const quotas = createCounters('ambit_quota_refusals_total', 'Calls refused by a quota, and whose it was.', 'scope');
  const spawned = createCounters('ambit_process_starts_total', 'Server processes started.', 'server');
  const restarts = createCounters(
    'ambit_process_restarts_total',
    'Server processes started again after they had ended by themselves.',
    'server',
  );
  const failed = createCounters(
    'ambit_process_start_failures_total',
    'Starts after which nothing could be called.',
    'server',
  );
  const starts = createHistograms(
    'ambit_process_start_seconds',
    'From the start of a server process until it could be called.',
    startSeconds,
    'server',
  );
  const processes = createGauges('ambit_processes_live', 'Server processes that are there now.', 'server');
  const refused = createCounters('ambit_http_refusals_total', 'HTTP requests answered with 400 or above.', 'status');
  const spans = createCounters('ambit_spans_total', 'Spans sent to the collector, and those it never got.', 'result');
  const memory = createGauges('process_resident_memory_bytes', 'Memory of the gateway itself.');
  const cpu = createCounters('process_cpu_seconds_total', 'Processor time of the gateway itself.');
  const since = createGauges('process_start_time_seconds', 'When the gateway was started, in seconds since 1970.');
  const all: AnyMetricFamily[] = [
    opened,
    live,
    ended,
    lives,
    perSession,
    calls,
    durations,
    withoutContext,
    cache,
    quotas,
    spawned,
    restarts,
    failed,
    starts,
    processes,
    refused,
    spans,
    memory,
    cpu,
    since,
  ];
  // Counters start at zero instead of absent, so that a first event shows as a change.
  for (const trust of ['direct', 'sandboxed']) opened.of(trust);
  for (const reason of ['ended', 'expired', 'evicted', 'closed', 'revoked']) ended.of(reason);
  for (const scope of ['session', 'user', 'workspace']) quotas.of(scope);
  lives.of();
  perSession.of();
  since.of().value = Math.round(Date.now() / 1000 - process.uptime());

  const sessionCalls = createSessionCallCounter();
  /** A client may name any server; other servers come from the configuration. */
  const serverLabel = (server: string): string => (server === '*' || options.isServer(server) ? server : overflowLabel);
  const methodLabel = (method: string): string => (methods.has(method) ? method : overflowLabel);

  return {
    sessionOpened(trustLevel) {
      opened.of(trustLevel).value++;
    },
    sessionEnded(sessionId, reason, seconds) {
      ended.of(reason).value++;
      observeValue(lives, lives.of(), Math.max(0, seconds));
      observeValue(perSession, perSession.of(), sessionCalls.take(sessionId));
    },
    called(server, method, outcome, seconds, sessionId) {
      const label = serverLabel(server);
      calls.of(label, methodLabel(method), outcome).value++;
      observeValue(durations, durations.of(label), seconds);
      if (sessionId !== undefined && method === 'tools/call') sessionCalls.add(sessionId);
    },
    contextNotSent(server) {
      withoutContext.of(server).value++;
    },
    cacheLookedUp(server, found) {
      cache.of(server, found ? 'hit' : 'miss').value++;
    },
    quotaRefused(scope) {
      quotas.of(scope).value++;
    },
    processSpawned(server) {
      spawned.of(server).value++;
      processes.of(server).value++;
    },
    processReady(server, seconds, again) {
      observeValue(starts, starts.of(server), seconds);
      if (again) restarts.of(server).value++;
    },
    processFailed(server) {
      failed.of(server).value++;
    },
    processEnded(server) {
      processes.of(server).value--;
    },
    httpRefused(status) {
      refused.of(String(status)).value++;
    },
    spans(result, count) {
      spans.of(result).value += count;
    },
    async text() {
      live.of().value = await options.liveSessions();
      memory.of().value = process.memoryUsage.rss();
      const { user, system } = process.cpuUsage();
      cpu.of().value = (user + system) / 1e6;
      return formatMetrics(all);
    },
  };
}

/** Counts the tool calls of each session until it ends. */
interface SessionCallCounter {
  add(sessionId: string): void;
  /** Returns the count and forgets it. */
  take(sessionId: string): number;
}

/** Limit of counted sessions: those that end elsewhere are never removed, so the oldest make room. */
export const maxSessions = 100_000;

export function createSessionCallCounter(): SessionCallCounter {
  const calls = new Map<string, { count: number }>();
  return {
    add(sessionId) {
      const known = calls.get(sessionId);
      if (known !== undefined) {
        known.count++;
        return;
      }
      if (calls.size >= maxSessions) calls.delete(calls.keys().next().value as string);
      calls.set(sessionId, { count: 1 });
    },
    take(sessionId) {
      const count = calls.get(sessionId)?.count ?? 0;
      calls.delete(sessionId);
      return count;
    },
  };
}
