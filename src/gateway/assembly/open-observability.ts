import { createRefusalJournal, type RefusalJournal } from '../../observability/journal/refusals.ts';
import type { Log } from '../../observability/log/log.ts';
import { createMetrics, type Metrics } from '../../observability/metrics/metrics.ts';
import { createExporter, type ExporterOptions } from '../../observability/traces/exporter.ts';
import { readOtlpSettings, type TelemetryConfig } from '../../observability/traces/otlp-settings.ts';
import { createTracer, type Tracer } from '../../observability/traces/tracer.ts';
import { createObserver, type Observer, type ServerListener } from '../observer.ts';
import { ownServer } from '../routing/own-server.ts';
import { createServerActivity, type ServerActivity } from '../server-activity.ts';
import { type ActivityTracker, createActivityTracker } from '../session-activity.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { GatewayParts } from './react-to-change.ts';

interface Telemetry {
  readonly tracer: Tracer;
  close(): Promise<void>;
}

/** The parts that observe the gateway: refusals, metrics, logs, traces. */
export interface Observability {
  readonly refusals: RefusalJournal;
  readonly metrics: Metrics;
  readonly observer: Observer;
  readonly activity: ServerActivity;
  readonly sessionActivity: ActivityTracker;
  readonly tracer: Tracer | undefined;
}

interface ObservabilityOptions extends Pick<GatewayParts, 'storage' | 'sessions'> {
  /** Environment variables of OpenTelemetry, used beside the configuration. */
  readonly environment: NodeJS.ProcessEnv | undefined;
  readonly serverListener: ServerListener | undefined;
}

export function openObservability(options: ObservabilityOptions, closing: ClosingStack): Observability {
  const { settings, config, journal, log } = options.storage;
  const { sessions, lifecycle } = options.sessions;
  const refusals = createRefusalJournal(journal);
  closing.push(refusals.close);
  const metrics = createMetrics({
    isServer: (name) => name === ownServer || settings.servers().has(name),
    liveSessions: () => sessions.loaded().length,
  });
  const telemetry = openTelemetry(config.telemetry, options.environment, log, metrics.spans);
  closing.push(() => telemetry?.close());
  const activity = createServerActivity();
  const sessionActivity = createActivityTracker(config.sessions);
  // Reports also the end of sessions that this process has unloaded.
  lifecycle.onStep(({ type, sessionId }) => {
    if (sessionId !== undefined && type !== 'created' && type !== 'restricted') sessionActivity.forget(sessionId);
  });
  return {
    refusals,
    metrics,
    activity,
    sessionActivity,
    observer: createObserver(log, metrics, options.serverListener, activity),
    tracer: telemetry?.tracer,
  };
}

/** Opens the export of spans, if the configuration or the environment asks for it. */
function openTelemetry(
  config: TelemetryConfig,
  env: NodeJS.ProcessEnv | undefined,
  log: Log,
  count: ExporterOptions['count'],
): Telemetry | undefined {
  const settings = readOtlpSettings(config, env);
  if (settings === undefined) return undefined;
  const exporter = createExporter({ settings, log, count });
  return { tracer: createTracer(exporter.add, settings.sampleRatio), close: exporter.close };
}
