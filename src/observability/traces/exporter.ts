import { withTimeout } from '../../lib/async/timeout.ts';
import { postJson } from '../../lib/net/post-json.ts';
import type { Log } from '../log/log.ts';
import type { OtlpSettings } from './otlp-settings.ts';

/** A finished span. Times are milliseconds since 1970, with fractions. */
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

/** Sends spans to a collector, in batches. Callers neither wait nor hear of failures. */
export interface Exporter {
  add(span: Span): void;
  /** Sends the waiting spans within a second, and drops the rest. */
  close(): Promise<void>;
}

export interface ExporterOptions {
  readonly settings: OtlpSettings;
  readonly log: Log;
  /** Gets how many spans reached the collector, and how many never will. */
  readonly count: (result: 'sent' | 'dropped', spans: number) => void;
  readonly everyMs?: number;
  readonly maxWaiting?: number;
}

const batchSize = 256;
const closeTimeoutMs = 1000;
const maxPauseMs = 30_000;
/** Statuses with which a collector asks for a retry; other failures are final. */
const retryStatuses = new Set([429, 502, 503, 504]);

export function createExporter(options: ExporterOptions): Exporter {
  const { settings, log, count, everyMs = 1000, maxWaiting = 2048 } = options;
  // The rest of the URL may be a secret.
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
      if (!posted.taken && failures++ === 0) log.warn('collector did not accept spans', { host, why: posted.why });
      if (!posted.taken && (posted.status === undefined || retryStatuses.has(posted.status))) return;
      if (posted.taken) failures = 0;
      queue.splice(0, batch.length);
      count(posted.taken ? 'sent' : 'dropped', batch.length);
    }
  }

  return {
    add(span) {
      if (closed || queue.length >= maxWaiting) return count('dropped', 1);
      queue.push(span);
      // More spans do not make an unresponsive collector be asked more often.
      if (queue.length >= batchSize && failures === 0) setImmediate(flush);
      else if (sending === undefined) schedule(everyMs);
    },
    async close() {
      if (closed) return;
      closed = true;
      clearTimeout(timer);
      await withTimeout((sending ?? Promise.resolve()).then(sendAll), closeTimeoutMs).catch(() => {});
      cut.abort();
      if (queue.length > 0) count('dropped', queue.splice(0).length);
    },
  };
}

const spanKinds = { server: 2, client: 3 } as const;
const failedStatus = { code: 2 };

/** Formats the body of a request to `/v1/traces`: OTLP as JSON. */
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

/** Converts to text, since no JavaScript number holds so many digits. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function toOtlpAttributes(named: Span['attributes']) {
  return Object.entries(named).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'boolean' ? { boolValue: value } : { stringValue: value } }];
  });
}
