import type { Span } from './span.ts';

const kinds = { server: 2, client: 3 } as const;
const failed = { code: 2 };

/** What a collector takes at `/v1/traces`: OTLP in its JSON form. */
export function tracesRequest(spans: readonly Span[], resource: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: 'ambit' }, spans: spans.map(spanOf) }],
      },
    ],
  });
}

function spanOf({ traceId, spanId, parentId, name, kind, from, until, failed: bad, attributes }: Span) {
  return {
    traceId,
    spanId,
    ...(parentId === undefined ? {} : { parentSpanId: parentId }),
    name,
    kind: kinds[kind],
    startTimeUnixNano: nanos(from),
    endTimeUnixNano: nanos(Math.max(from, until)),
    attributes: attributesOf(attributes),
    status: bad ? failed : {},
  };
}

/** As text: no number of JavaScript holds so many digits. */
function nanos(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function attributesOf(named: Span['attributes']) {
  return Object.entries(named).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'boolean' ? { boolValue: value } : { stringValue: value } }];
  });
}
