import type { FinalReply } from '../../protocol/channel.ts';
import { findMember, readElements, readRawValue } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import type { PreparedExchange } from '../exchange.ts';
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
const maxDepth = 8;

/**
 * Checks the `Mcp-Param-*` headers of modern tool calls against the arguments (SEP-2243). Servers on stdio and servers of
 * the handshake era do not see these headers. The annotations come from the list of tools that the client got.
 */
export function checkParamHeaders(): AroundStage<PreparedExchange, unknown, FinalReply> {
  /** The annotated tools by session and address. The longest unused are forgotten. */
  const lists = new Map<string, ToolHeaders>();

  function learnHeaders(key: string, reply: FinalReply): void {
    if (reply.kind !== 'message' || !reply.bytes.includes(annotation)) return;
    const found = new Map([...(lists.get(key) ?? []), ...readToolHeaders(reply.bytes)]);
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
    learnHeaders(`${exchange.session.id} ${exchange.server}`, reply);
    return reply;
  }

  return {
    name: 'checkParamHeaders',
    refuses: [-32020],
    isNeeded: ({ era, upstream }) => era === 'modern' && upstream?.kind !== 'in-process',
    around(exchange, next) {
      const { message, session, server, entrance } = exchange;
      if (entrance !== 'http' || message.kind !== 'request') return next(exchange);
      if (message.method === 'tools/list') return learnFromList(exchange, next);
      if (message.method === 'tools/call' && lists.size > 0) {
        const expected = lists.get(`${session.id} ${server}`)?.get(readToolName(message) ?? '');
        if (expected !== undefined) assertHeaders(exchange, expected);
      }
      return next(exchange);
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
    const said = sent[header];
    if (said === undefined || decodeParam(said) !== String(value)) {
      throw new ProtocolError(-32020, 400, `The ${header} header and the argument ${path.join('.')} must agree`);
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
  const found = new Map<string, readonly MirroredArgument[]>();
  const list = findMember(readMessage(bytes).result?.shape, 'tools');
  for (const span of list === undefined ? [] : readElements(bytes, list)) {
    const tool: unknown = JSON.parse(readRawValue(bytes, span));
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
