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
  externalKeyVerified(result: 'accepted' | 'refused' | 'failed' | 'limited'): void;
  /** Spans that reached their collector, or never will. */
  spans(result: 'sent' | 'dropped', count: number): void;
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
  const families = {
    opened: createCounters('ambit_sessions_opened_total', 'Sessions opened here, by trust level.', 'trust'),
    live: createGauges('ambit_sessions_live', 'Live sessions.'),
    ended: createCounters('ambit_sessions_ended_total', 'Sessions that ended here, and why.', 'reason'),
    lives: createHistograms('ambit_session_duration_seconds', 'How long sessions lived.', lifeSeconds),
    perSession: createHistograms('ambit_session_calls', 'Tool calls of a session here, when it ends.', callCounts),
    calls: createCounters('ambit_calls_total', 'Exchanges, and how they ended.', 'server', 'method', 'outcome'),
    durations: createHistograms('ambit_call_duration_seconds', 'How long exchanges took.', callSeconds, 'server'),
    withoutContext: createCounters(
      'ambit_calls_without_context_total',
      'Requests that were sent to a server without session context.',
      'server',
    ),
    cache: createCounters('ambit_cache_lookups_total', 'Lookups in the result cache.', 'server', 'result'),
    quotas: createCounters('ambit_quota_refusals_total', 'Calls refused by a quota, and whose it was.', 'scope'),
    spawned: createCounters('ambit_process_starts_total', 'Server processes started.', 'server'),
    restarts: createCounters(
      'ambit_process_restarts_total',
      'Server processes that were restarted after they had ended unexpectedly.',
      'server',
    ),
    failed: createCounters('ambit_process_start_failures_total', 'Failed starts of server processes.', 'server'),
    starts: createHistograms(
      'ambit_process_start_seconds',
      'Time from the start of a server process until it can be called.',
      startSeconds,
      'server',
    ),
    processes: createGauges('ambit_processes_live', 'Running server processes.', 'server'),
    refused: createCounters('ambit_http_refusals_total', 'HTTP requests answered with 400 or above.', 'status'),
    externalKeys: createCounters(
      'ambit_external_keys_total',
      'Checks of keys of another system, and their results.',
      'result',
    ),
    spans: createCounters('ambit_spans_total', 'Spans sent to the collector, and spans that were lost.', 'result'),
    memory: createGauges('process_resident_memory_bytes', 'Memory of the gateway itself.'),
    cpu: createCounters('process_cpu_seconds_total', 'Processor time of the gateway itself.'),
    since: createGauges('process_start_time_seconds', 'Start time of the gateway, in seconds since 1970.'),
  };
  // Counters start at zero instead of absent, so that a first event shows as a change.
  for (const trust of ['direct', 'sandboxed']) families.opened.of(trust);
  for (const reason of ['ended', 'expired', 'evicted', 'closed', 'revoked']) families.ended.of(reason);
  for (const scope of ['session', 'user', 'workspace']) families.quotas.of(scope);
  for (const result of ['accepted', 'refused', 'failed', 'limited']) families.externalKeys.of(result);
  families.lives.of();
  families.perSession.of();
  families.since.of().value = Math.round(Date.now() / 1000 - process.uptime());

  const sessionCalls = createSessionCallCounter();
  /** A client may name any server; other servers come from the configuration. */
  const serverLabel = (server: string): string => (server === '*' || options.isServer(server) ? server : overflowLabel);
  const methodLabel = (method: string): string => (methods.has(method) ? method : overflowLabel);

  return {
    sessionOpened(trustLevel) {
      families.opened.of(trustLevel).value++;
    },
    sessionEnded(sessionId, reason, seconds) {
      families.ended.of(reason).value++;
      observeValue(families.lives, families.lives.of(), Math.max(0, seconds));
      observeValue(families.perSession, families.perSession.of(), sessionCalls.take(sessionId));
    },
    called(server, method, outcome, seconds, sessionId) {
      const label = serverLabel(server);
      families.calls.of(label, methodLabel(method), outcome).value++;
      observeValue(families.durations, families.durations.of(label), seconds);
      if (sessionId !== undefined && method === 'tools/call') sessionCalls.add(sessionId);
    },
    contextNotSent(server) {
      families.withoutContext.of(server).value++;
    },
    cacheLookedUp(server, found) {
      families.cache.of(server, found ? 'hit' : 'miss').value++;
    },
    quotaRefused(scope) {
      families.quotas.of(scope).value++;
    },
    processSpawned(server) {
      families.spawned.of(server).value++;
      families.processes.of(server).value++;
    },
    processReady(server, seconds, again) {
      observeValue(families.starts, families.starts.of(server), seconds);
      if (again) families.restarts.of(server).value++;
    },
    processFailed(server) {
      families.failed.of(server).value++;
    },
    processEnded(server) {
      families.processes.of(server).value--;
    },
    httpRefused(status) {
      families.refused.of(String(status)).value++;
    },
    externalKeyVerified(result) {
      families.externalKeys.of(result).value++;
    },
    spans(result, count) {
      families.spans.of(result).value += count;
    },
    async text() {
      families.live.of().value = await options.liveSessions();
      families.memory.of().value = process.memoryUsage.rss();
      const { user, system } = process.cpuUsage();
      families.cpu.of().value = (user + system) / 1e6;
      return formatMetrics(Object.values(families));
    },
  };
}

/** Limit of counted sessions: those that end elsewhere are never removed, so the oldest make room. */
export const maxSessions = 100_000;

/** Counts the tool calls of each session until it ends. */
export function createSessionCallCounter() {
  const calls = new Map<string, { count: number }>();
  return {
    add(sessionId: string): void {
      const known = calls.get(sessionId);
      if (known !== undefined) {
        known.count++;
        return;
      }
      if (calls.size >= maxSessions) calls.delete(calls.keys().next().value as string);
      calls.set(sessionId, { count: 1 });
    },
    take(sessionId: string): number {
      const count = calls.get(sessionId)?.count ?? 0;
      calls.delete(sessionId);
      return count;
    },
  };
}

/** A plain number: it is incremented on every call and read every few seconds. */
interface Counter {
  value: number;
}

interface Histogram {
  /** Counts per bucket, not cumulative; the last one is beyond all bounds. */
  readonly counts: number[];
  sum: number;
}

/** A metric with its labels. `of` finds the instrument for these labels, or creates it. */
interface MetricFamily<Instrument> {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly bounds: readonly number[];
  of(first?: string, second?: string, third?: string): Instrument;
  each(tell: (labels: readonly string[], instrument: Instrument) => void): void;
}

/** Limit of label combinations of a family; further ones are counted under one label. */
export const maxChildren = 2000;
export const overflowLabel = 'other';

interface Branch<Instrument> {
  readonly children: Map<string, Branch<Instrument>>;
  instrument: Instrument | undefined;
}

function createFamily<Instrument>(
  described: Pick<MetricFamily<Instrument>, 'name' | 'help' | 'kind' | 'labels' | 'bounds'>,
  make: () => Instrument,
): MetricFamily<Instrument> {
  const depth = described.labels.length;
  const root: Branch<Instrument> = { children: new Map(), instrument: undefined };
  let size = 0;

  function addChild(labels: readonly string[]): Instrument {
    const kept = size < maxChildren ? labels : labels.map(() => overflowLabel);
    let branch = root;
    for (const label of kept) {
      let next = branch.children.get(label);
      if (next === undefined) {
        next = { children: new Map(), instrument: undefined };
        branch.children.set(label, next);
      }
      branch = next;
    }
    if (branch.instrument === undefined) {
      branch.instrument = make();
      size++;
    }
    return branch.instrument;
  }

  function visitBranch(
    branch: Branch<Instrument>,
    path: readonly string[],
    tell: Parameters<MetricFamily<Instrument>['each']>[0],
  ) {
    if (branch.instrument !== undefined) tell(path, branch.instrument);
    for (const [label, child] of branch.children) visitBranch(child, [...path, label], tell);
  }

  return {
    ...described,
    // Looked up label by label: one combined key would be a new string with every call.
    of(first = '', second = '', third = '') {
      let branch: Branch<Instrument> | undefined = root;
      if (depth > 0) branch = branch.children.get(first);
      if (depth > 1) branch = branch?.children.get(second);
      if (depth > 2) branch = branch?.children.get(third);
      return branch?.instrument ?? addChild([first, second, third].slice(0, depth));
    },
    each: (tell) => visitBranch(root, [], tell),
  };
}

export function createCounters(name: string, help: string, ...labels: string[]): MetricFamily<Counter> {
  return createFamily({ name, help, kind: 'counter', labels, bounds: [] }, () => ({ value: 0 }));
}

function createGauges(name: string, help: string, ...labels: string[]): MetricFamily<Counter> {
  return createFamily({ name, help, kind: 'gauge', labels, bounds: [] }, () => ({ value: 0 }));
}

export function createHistograms(
  name: string,
  help: string,
  bounds: readonly number[],
  ...labels: string[]
): MetricFamily<Histogram> {
  return createFamily({ name, help, kind: 'histogram', labels, bounds }, () => ({
    counts: new Array<number>(bounds.length + 1).fill(0),
    sum: 0,
  }));
}

export function observeValue(family: MetricFamily<Histogram>, histogram: Histogram, value: number): void {
  const { bounds } = family;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] as number)) at++;
  histogram.counts[at] = (histogram.counts[at] as number) + 1;
  histogram.sum += value;
}

/** The media type of Prometheus' text format, version 0.0.4. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

export type AnyMetricFamily = MetricFamily<Counter> | MetricFamily<Histogram>;

export function formatMetrics(families: readonly AnyMetricFamily[]): string {
  return families.map(formatFamily).join('');
}

function formatFamily(family: AnyMetricFamily): string {
  const help = family.help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
  let text = `# HELP ${family.name} ${help}\n# TYPE ${family.name} ${family.kind}\n`;
  if (isHistogram(family)) {
    family.each((values, histogram) => {
      text += formatHistogram(family, values, histogram);
    });
  } else {
    family.each((values, { value }) => {
      text += `${family.name}${formatLabels(family.labels, values)} ${value}\n`;
    });
  }
  return text;
}

function isHistogram(family: AnyMetricFamily): family is MetricFamily<Histogram> {
  return family.kind === 'histogram';
}

function formatHistogram(
  family: MetricFamily<Histogram>,
  values: readonly string[],
  { counts, sum }: Histogram,
): string {
  const { name, labels, bounds } = family;
  let text = '';
  let sofar = 0;
  for (const [index, count] of counts.entries()) {
    sofar += count;
    const bound = bounds[index];
    const le = bound === undefined ? '+Inf' : String(bound);
    text += `${name}_bucket${formatLabels([...labels, 'le'], [...values, le])} ${sofar}\n`;
  }
  const named = formatLabels(labels, values);
  return `${text}${name}_sum${named} ${sum}\n${name}_count${named} ${sofar}\n`;
}

function formatLabels(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return '';
  return `{${names.map((name, index) => `${name}="${escapeLabelValue(values[index] ?? '')}"`).join(',')}}`;
}

function escapeLabelValue(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}
