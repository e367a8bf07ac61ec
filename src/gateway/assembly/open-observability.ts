import { createRefusalJournal, type RefusalJournal } from '../../observability/journal/refusals.ts';
import { createMetrics, type Metrics } from '../../observability/metrics/metrics.ts';
import { openTelemetry } from '../../observability/traces/open-telemetry.ts';
import type { Tracer } from '../../observability/traces/tracer.ts';
import { createObserver, type Observer, type ServerListener } from '../observer.ts';
import { ownServer } from '../routing/own-tool-list.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { GatewayParts } from './react-to-change.ts';

/** The parts that observe the gateway: refusals, metrics, logs, traces. */
export interface Observability {
  readonly refusals: RefusalJournal;
  readonly metrics: Metrics;
  readonly observer: Observer;
  readonly tracer: Tracer | undefined;
}

interface ObservabilityOptions extends Pick<GatewayParts, 'storage' | 'sessions'> {
  /** Environment variables of OpenTelemetry, used beside the configuration. */
  readonly environment: NodeJS.ProcessEnv | undefined;
  readonly serverListener: ServerListener | undefined;
}

export function openObservability(options: ObservabilityOptions, closing: ClosingStack): Observability {
  const { settings, config, journal, log } = options.storage;
  const { sessions } = options.sessions;
  const refusals = createRefusalJournal(journal);
  closing.push(refusals.close);
  const metrics = createMetrics({
    isServer: (name) => name === ownServer || settings.servers().has(name),
    liveSessions: () => sessions.loaded().length,
  });
  const telemetry = openTelemetry(config.telemetry, options.environment, log, metrics.spans);
  closing.push(() => telemetry?.close());
  return {
    refusals,
    metrics,
    observer: createObserver(log, metrics, options.serverListener),
    tracer: telemetry?.tracer,
  };
}
