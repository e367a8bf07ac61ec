import type { FinalReply } from '../../protocol/channel.ts';
import { findMember, readElements, readRawValue } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import { splitPublicName } from '../../upstreams/catalog/list-entries.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import { allServers, type PreparedExchange } from '../exchange.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import type { AroundStage, Next } from '../stage.ts';

/** An argument of a tool that the client must repeat in a header. */
interface MirroredArgument {
  readonly path: readonly string[];
  /** The name of the header in lower case. */
  readonly header: string;
}

type ToolHeaders = ReadonlyMap<string, readonly MirroredArgument[]>;

const annotation = Buffer.from('x-mcp-header');
const maxLists = 1000;
/** The annotated tools of one list. A server decides how many pages it has. */
const maxTools = 10_000;
const maxNameLength = 100;
const maxDepth = 8;

/**
 * Checks the `Mcp-Param-*` headers of modern tool calls against the arguments (SEP-2243). Servers on stdio and servers of
 * the handshake era do not see these headers. The annotations come from the list that the client got. If it got none, they
 * come from the catalog, but only where they can matter: the call has such a header, or the server is known to have
 * annotated tools. Calls to all other servers do not wait for a list.
 */
export function checkParamHeaders(
  catalog: Catalog,
  resolution: ServerResolution,
  serverCallers: ServerCallers,
): AroundStage<PreparedExchange, unknown, FinalReply> {
  /** The annotated tools by session and address. The longest unused are forgotten. */
  const lists = new Map<string, ToolHeaders>();
  /** The servers that have listed an annotated tool. */
  const annotated = new Set<string>();
  catalog.onChange(({ server }) => {
    annotated.delete(server);
    for (const key of lists.keys()) if (key.endsWith(` ${server}`) || key.endsWith(` ${allServers}`)) lists.delete(key);
  });

  function remember(key: string, found: ToolHeaders): void {
    lists.delete(key);
    lists.set(key, found);
    for (const oldest of lists.keys()) {
      if (lists.size <= maxLists) break;
      lists.delete(oldest);
    }
  }

  async function learnFromList<Here extends PreparedExchange>(
    exchange: Here,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const reply = await next(exchange);
    learnHeaders(exchange, reply);
    return reply;
  }

  /** Learns from one page. The first page replaces the list before it, so that no list grows with each request. */
  function learnHeaders({ session, server, message }: PreparedExchange, reply: FinalReply): void {
    if (reply.kind !== 'message') return;
    const key = `${session.id} ${server}`;
    if (lists.size > 0 && findMember(message.params?.shape, 'cursor') === undefined) lists.delete(key);
    if (!reply.bytes.includes(annotation)) return;
    const found = readToolHeaders(reply.bytes);
    for (const name of found.keys()) {
      const owner = server === allServers ? splitPublicName(name)?.server : server;
      if (owner !== undefined) annotated.add(owner);
    }
    const merged = new Map([...(lists.get(key) ?? []), ...found]);
    remember(key, merged.size > maxTools ? found : merged);
  }

  async function fetchHeaders(exchange: PreparedExchange, upstream: ServerDefinition): Promise<ToolHeaders> {
    const { session, message, era } = exchange;
    const key = `${session.id} ${upstream.name}`;
    const known = lists.get(key);
    if (known !== undefined) return known;
    const { offer } = await catalog.list(upstream, {
      era,
      capabilities: capabilitiesKey(message),
      owner: resolution.listOwnerFor(session, upstream),
      scopeKey: sessionScopeKey(session),
      ask: serverCallers.ask(exchange, upstream),
      // This may be the first listing, which pins the tools of all clients.
      askAs: serverCallers.askAs(exchange, upstream),
    });
    if (offer === undefined) return new Map();
    const found = readHeaders(offer.tools.filter((text) => text.includes('x-mcp-header')));
    if (found.size > 0) annotated.add(upstream.name);
    remember(key, found);
    return found;
  }

  async function findExpected(exchange: PreparedExchange): Promise<readonly MirroredArgument[] | undefined> {
    const { message, outgoing, session, server, upstream, headers } = exchange;
    const listed = lists.size === 0 ? undefined : lists.get(`${session.id} ${server}`);
    const expected = listed?.get(readToolName(message) ?? '');
    if (expected !== undefined || listed !== undefined) return expected;
    if (upstream === undefined || upstream.kind === 'in-process') return undefined;
    if (!annotated.has(upstream.name) && Object.keys(headers()).length === 0) return undefined;
    return (await fetchHeaders(exchange, upstream)).get(readToolName(outgoing) ?? '');
  }

  async function callChecked<Here extends PreparedExchange>(
    exchange: Here,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const expected = await findExpected(exchange);
    if (expected !== undefined) assertHeaders(exchange, expected);
    return next(exchange);
  }

  return {
    name: 'checkParamHeaders',
    refuses: [-32020],
    isNeeded: ({ era, upstream }) => era === 'modern' && upstream?.kind !== 'in-process',
    around(exchange, next) {
      const { message, entrance, headers } = exchange;
      if (entrance !== 'http' || message.kind !== 'request') return next(exchange);
      if (message.method === 'tools/list') return learnFromList(exchange, next);
      if (message.method !== 'tools/call') return next(exchange);
      const mayHaveHeaders = lists.size > 0 || annotated.size > 0 || Object.keys(headers()).length > 0;
      return mayHaveHeaders ? callChecked(exchange, next) : next(exchange);
    },
  };
}

function assertHeaders({ message, headers }: PreparedExchange, expected: readonly MirroredArgument[]): void {
  const member = findMember(message.params?.shape, 'arguments');
  const args: unknown = member === undefined ? undefined : JSON.parse(readRawValue(message.bytes, member));
  const sent = headers();
  for (const { path, header } of expected) {
    const value = path.reduce<unknown>(
      (at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined),
      args,
    );
    if (value === undefined || value === null) continue;
    const given = sent[header];
    if (given === undefined || decodeParam(given) !== String(value)) {
      // Servers choose these names, and their length.
      const [said, meant] = [header, path.join('.')].map((name) => name.slice(0, maxNameLength));
      throw new ProtocolError(-32020, 400, `The ${said} header and the argument ${meant} must agree`);
    }
  }
}

/** Decodes a header value. A value without the whole wrapper is literal. Undefined if the encoding is invalid. */
function decodeParam(value: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/s.exec(value)?.[1];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded ? bytes.toString('utf8') : undefined;
}

function readToolHeaders(bytes: Buffer): ToolHeaders {
  const list = findMember(readMessage(bytes).result?.shape, 'tools');
  return readHeaders(list === undefined ? [] : readElements(bytes, list).map((span) => readRawValue(bytes, span)));
}

function readHeaders(tools: readonly string[]): ToolHeaders {
  const found = new Map<string, readonly MirroredArgument[]>();
  for (const text of tools) {
    const tool: unknown = JSON.parse(text);
    if (!isRecord(tool) || typeof tool['name'] !== 'string') continue;
    const mirrored = listMirrored(tool['inputSchema'], []);
    if (mirrored.length > 0) found.set(tool['name'], mirrored);
  }
  return found;
}

/** Lists the annotated arguments of a schema. Only those below `properties` count. */
function listMirrored(schema: unknown, path: readonly string[]): MirroredArgument[] {
  const properties = isRecord(schema) ? schema['properties'] : undefined;
  if (!isRecord(properties) || path.length >= maxDepth) return [];
  return Object.entries(properties).flatMap(([key, property]) => {
    const name = isRecord(property) ? property['x-mcp-header'] : undefined;
    const own = typeof name === 'string' ? [{ path: [...path, key], header: `mcp-param-${name.toLowerCase()}` }] : [];
    return [...own, ...listMirrored(property, [...path, key])];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
