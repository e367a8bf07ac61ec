import type { Log } from '../log/log.ts';
import { createExporter, type ExporterOptions } from './exporter.ts';
import { readOtlpSettings, type TelemetryConfig } from './otlp-settings.ts';
import { createTracer, type Tracer } from './tracer.ts';

interface Telemetry {
  readonly tracer: Tracer;
  close(): Promise<void>;
}

/** Opens the export of spans, if the configuration or the environment asks for it. */
export function openTelemetry(
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
