import { createRefusals, type Refusals } from '../../observability/journal/refusals.ts';
import { createMetrics, type Metrics } from '../../observability/metrics/metrics.ts';
import { openTelemetry } from '../../observability/traces/open-telemetry.ts';
import type { Tracer } from '../../observability/traces/tracer.ts';
import { createObserver, type Observer } from '../observer.ts';
import { ownServer } from '../routing/own-tools.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';

/** The parts that others watch the gateway by. */
export interface Observability {
  readonly refusals: Refusals;
  readonly metrics: Metrics;
  readonly observer: Observer;
  readonly tracer: Tracer | undefined;
}

interface ObservabilityOptions {
  readonly storage: Storage;
  readonly sessions: SessionParts;
  /** OpenTelemetry's own names are looked for here, beside the configuration. */
  readonly environment: NodeJS.ProcessEnv | undefined;
}

export function openObservability(options: ObservabilityOptions, closing: ClosingStack): Observability {
  const { settings, config, journal, log } = options.storage;
  const { sessions } = options.sessions;
  const refusals = createRefusals(journal);
  closing.push(refusals.close);
  const metrics = createMetrics({
    isServer: (name) => name === ownServer || settings.servers().has(name),
    liveSessions: () => sessions.held().length,
  });
  const telemetry = openTelemetry(config.telemetry, options.environment, log, metrics.spans);
  closing.push(() => telemetry?.close());
  return { refusals, metrics, observer: createObserver(log, metrics), tracer: telemetry?.tracer };
}
