import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

const attribute = z.strictObject({
  key: z.string().regex(/^[a-z][a-z0-9_.]{0,63}$/),
  value: z.union([z.strictObject({ stringValue: z.string() }), z.strictObject({ boolValue: z.boolean() })]),
});
const spanId = z
  .string()
  .regex(/^[0-9a-f]{16}$/)
  .refine((id) => !/^0+$/.test(id));
const nanos = z.string().regex(/^[1-9][0-9]{18}$/);

/** OTLP in JSON by its specification: ids in hex, times as text, enums as numbers, no unknown member. */
const tracesRequest = z.strictObject({
  resourceSpans: z
    .array(
      z.strictObject({
        resource: z.strictObject({ attributes: z.array(attribute) }),
        scopeSpans: z.array(
          z.strictObject({
            scope: z.strictObject({ name: z.string().min(1), version: z.string().optional() }),
            spans: z.array(
              z
                .strictObject({
                  traceId: z
                    .string()
                    .regex(/^[0-9a-f]{32}$/)
                    .refine((id) => !/^0+$/.test(id)),
                  spanId,
                  parentSpanId: spanId.optional(),
                  name: z.string().min(1),
                  kind: z.literal([1, 2, 3, 4, 5]),
                  startTimeUnixNano: nanos,
                  endTimeUnixNano: nanos,
                  attributes: z
                    .array(attribute)
                    .refine((all) => new Set(all.map(({ key }) => key)).size === all.length, 'a key twice'),
                  status: z.strictObject({ code: z.literal([0, 1, 2]).optional(), message: z.string().optional() }),
                })
                .refine(({ startTimeUnixNano: from, endTimeUnixNano: until }) => BigInt(from) <= BigInt(until)),
            ),
          }),
        ),
      }),
    )
    .length(1),
});

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly from: bigint;
  readonly until: bigint;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, string | boolean>>;
}

export interface Collector {
  readonly url: string;
  readonly bodies: string[];
  readonly spans: ReceivedSpan[];
  readonly asked: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** The status of its answers; 200 by default, and no answer at all with 0. */
  status: number;
  /** Resolves when this many spans match. */
  sees(count: number, fits?: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan[]>;
  close(): Promise<void>;
}

/** A collector that refuses everything that is not exactly OTLP. */
export async function startCollector(): Promise<Collector> {
  const waiting = new Set<() => void>();
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('');
    collector.asked.push({ path: request.url ?? '', headers: request.headers });
    collector.bodies.push(body);
    const { status } = collector;
    if (status === 200) collector.spans.push(...parseSpans(body));
    if (status !== 0) response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
    for (const look of waiting) look();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies: [],
    spans: [],
    asked: [],
    status: 200,
    sees: (count, fits = () => true) =>
      new Promise((resolve) => {
        const look = () => {
          const found = collector.spans.filter(fits);
          if (found.length < count) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return collector;
}

export function parseSpans(body: string): ReceivedSpan[] {
  const { resourceSpans } = tracesRequest.parse(JSON.parse(body));
  return resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ startTimeUnixNano, endTimeUnixNano, status, attributes, ...span }) => ({
        ...span,
        from: BigInt(startTimeUnixNano),
        until: BigInt(endTimeUnixNano),
        failed: status.code === 2,
        attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]])) as Record<
          string,
          string | boolean
        >,
      })),
    ),
  );
}
