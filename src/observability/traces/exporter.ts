import { within } from '../../lib/async/timeout.ts';
import { postJson } from '../../lib/net/post-json.ts';
import type { Log } from '../log/log.ts';
import type { OtlpSettings } from './otlp-settings.ts';

const spanKinds = { server: 2, client: 3 } as const;

const failedStatus = { code: 2 };

/** A span that is over. Times are milliseconds since 1970, with what is below them. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: 'server' | 'client';
  readonly from: number;
  readonly until: number;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, string | boolean | undefined>>;
}

/** Takes spans to a collector, some at a time. Nobody who hands one over waits for anything, or hears of a failure. */
export interface Exporter {
  add(span: Span): void;
  /** Sends what waits, within a second, and leaves the rest. */
  close(): Promise<void>;
}

export interface ExporterOptions {
  readonly settings: OtlpSettings;
  readonly log: Log;
  /** Hears how many reached the collector, and how many never will. */
  readonly count: (result: 'sent' | 'dropped', spans: number) => void;
  readonly everyMs?: number;
  readonly maxWaiting?: number;
}

const batchSize = 256;
const closeTimeoutMs = 1000;
const maxPauseMs = 30_000;
/** With these a collector asks to be asked again; anything else it will not take the next time either. */
const retryStatuses = new Set([429, 502, 503, 504]);

export function createExporter(options: ExporterOptions): Exporter {
  const { settings, log, count, everyMs = 1000, maxWaiting: mostWaiting = 2048 } = options;
  // The rest of the address may be a secret.
  const { host } = settings.url;
  const resource = { 'service.name': settings.serviceName, 'process.pid': String(process.pid) };
  const headers = { 'user-agent': 'ambit', ...settings.headers };
  const queue: Span[] = [];
  const cut = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  let failures = 0;
  let closed = false;

  function schedule(ms: number): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      flush();
    }, ms).unref();
  }

  function flush(): void {
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (queue.length > 0 && !closed) schedule(Math.min(everyMs * 2 ** failures, maxPauseMs));
    });
  }

  async function sendAll(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.slice(0, batchSize);
      const posted = await postJson(settings.url, headers, formatTracesRequest(batch, resource), cut.signal);
      if (!posted.taken && failures++ === 0) log.warn('a collector did not take spans', { host, why: posted.why });
      if (!posted.taken && (posted.status === undefined || retryStatuses.has(posted.status))) return;
      if (posted.taken) failures = 0;
      queue.splice(0, batch.length);
      count(posted.taken ? 'sent' : 'dropped', batch.length);
    }
  }

  return {
    add(span) {
      if (closed || queue.length >= mostWaiting) return count('dropped', 1);
      queue.push(span);
      // A collector that does not answer is not asked more often because there is more to tell.
      if (queue.length >= batchSize && failures === 0) setImmediate(flush);
      else if (sending === undefined) schedule(everyMs);
    },
    async close() {
      if (closed) return;
      closed = true;
      clearTimeout(timer);
      await within((sending ?? Promise.resolve()).then(sendAll), closeTimeoutMs).catch(() => {});
      cut.abort();
      if (queue.length > 0) count('dropped', queue.splice(0).length);
    },
  };
}

/** What a collector takes at `/v1/traces`: OTLP in its JSON form. */
function formatTracesRequest(spans: readonly Span[], resource: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: toOtlpAttributes(resource) },
        scopeSpans: [{ scope: { name: 'ambit' }, spans: spans.map(toOtlpSpan) }],
      },
    ],
  });
}

function toOtlpSpan({ traceId, spanId, parentId, name, kind, from, until, failed: bad, attributes }: Span) {
  return {
    traceId,
    spanId,
    ...(parentId === undefined ? {} : { parentSpanId: parentId }),
    name,
    kind: spanKinds[kind],
    startTimeUnixNano: toNanoseconds(from),
    endTimeUnixNano: toNanoseconds(Math.max(from, until)),
    attributes: toOtlpAttributes(attributes),
    status: bad ? failedStatus : {},
  };
}

/** As text: no number of JavaScript holds so many digits. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function toOtlpAttributes(named: Span['attributes']) {
  return Object.entries(named).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'boolean' ? { boolValue: value } : { stringValue: value } }];
  });
}
