import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

/** An entry as the registry API (v0.1) describes it: the `server.json` of a server, and what the registry says of it. */
export interface PublishedEntry {
  readonly server: Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };
  readonly _meta?: Readonly<Record<string, unknown>>;
}

const input = {
  description: z.string().optional(),
  isRequired: z.boolean().optional(),
  isSecret: z.boolean().optional(),
  format: z.enum(['string', 'number', 'boolean', 'filepath']).optional(),
  value: z.string().optional(),
  default: z.string().optional(),
};
const variables = z.record(z.string(), z.strictObject(input)).optional();
const argument = z.union([
  z
    .strictObject({ ...input, variables, type: z.literal('positional'), valueHint: z.string().optional() })
    .refine(({ value, valueHint }) => value !== undefined || valueHint !== undefined),
  z.strictObject({ ...input, variables, type: z.literal('named'), name: z.string() }),
]);
const keyValue = z.strictObject({ ...input, variables, name: z.string() });
const address = z.string().regex(/^(https?:\/\/[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)$/);
const http = z.strictObject({
  type: z.enum(['streamable-http', 'sse']),
  url: address,
  headers: z.array(keyValue).optional(),
});

/** The rules of the published schema of `server.json` (2025-12-11), for the members that are used here. */
const publishedSchema = z.strictObject({
  server: z.strictObject({
    $schema: z.url().optional(),
    name: z
      .string()
      .min(3)
      .max(200)
      .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
    description: z.string().min(1).max(100),
    title: z.string().min(1).max(100).optional(),
    version: z.string().max(255),
    packages: z
      .array(
        z.strictObject({
          registryType: z.string(),
          registryBaseUrl: z.url().optional(),
          identifier: z.string(),
          version: z.string().min(1).optional(),
          runtimeHint: z.string().optional(),
          transport: z.union([z.strictObject({ type: z.literal('stdio') }), http]),
          runtimeArguments: z.array(argument).optional(),
          packageArguments: z.array(argument).optional(),
          environmentVariables: z.array(keyValue).optional(),
          fileSha256: z
            .string()
            .regex(/^[a-f0-9]{64}$/)
            .optional(),
        }),
      )
      .optional(),
    remotes: z.array(http).optional(),
  }),
  _meta: z
    .strictObject({
      'io.modelcontextprotocol.registry/official': z.strictObject({
        status: z.enum(['active', 'deprecated', 'deleted']),
        statusMessage: z.string().max(500).optional(),
        isLatest: z.boolean().optional(),
      }),
    })
    .optional(),
});

export function describeStatus(status: string, isLatest = true): Record<string, unknown> {
  return { 'io.modelcontextprotocol.registry/official': { status, isLatest } };
}

export interface RegistryServer {
  readonly url: string;
  /** The paths and queries that were asked for. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

/** A registry on this machine with these entries. Entries that break the published schema are refused. */
export function startRegistry(entries: readonly PublishedEntry[]): Promise<RegistryServer> {
  for (const entry of entries) publishedSchema.parse(entry);
  return startHttpServer((request, response) => answerRequest(entries, request, response));
}

/** A server on this machine that answers as it likes. */
export async function startHttpServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<RegistryServer> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function answerRequest(entries: readonly PublishedEntry[], request: IncomingMessage, response: ServerResponse): void {
  const { status, body } = findAnswer(entries, new URL(request.url ?? '', 'http://registry'));
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function findAnswer(entries: readonly PublishedEntry[], url: URL): { readonly status: number; readonly body: unknown } {
  const [, version, noun, name, more, wanted] = url.pathname.split('/').map(decodeURIComponent);
  if (version !== 'v0.1' || noun !== 'servers') return { status: 404, body: { error: 'Endpoint not found' } };
  if (name === undefined) return { status: 200, body: listEntries(entries, url.searchParams) };
  const found = entries.filter(({ server }) => server.name === name);
  const entry = wanted === 'latest' ? found.at(-1) : found.find(({ server }) => server.version === wanted);
  if (more !== 'versions' || entry === undefined) return { status: 404, body: { error: 'Server not found' } };
  return { status: 200, body: entry };
}

/** One page. The cursor is the number of entries before it. */
function listEntries(entries: readonly PublishedEntry[], query: URLSearchParams): unknown {
  const search = (query.get('search') ?? '').toLowerCase();
  const found = entries.filter(({ server }) => server.name.toLowerCase().includes(search));
  const from = Number(query.get('cursor') ?? 0);
  const to = from + Number(query.get('limit') ?? 30);
  const page = found.slice(from, to);
  const nextCursor = to < found.length ? { nextCursor: String(to) } : {};
  return { servers: page, metadata: { count: page.length, ...nextCursor } };
}
