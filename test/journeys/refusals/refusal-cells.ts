import {
  handshake,
  initializeRequest,
  modernHeaders,
  modernMeta,
  modernRequest,
  type PostAnswer,
  post,
} from '../json-mcp-client.ts';
import { type Era, type Kind, kinds, type Target } from './refusal-kinds.ts';
import { maxCalls, type RefusingGateway } from './start-refusing-gateway.ts';

/** One kind of refusal of one tool, at one address and in one era. */
export interface Cell {
  readonly kind: Kind;
  readonly target: Target;
  readonly era: Era;
  readonly path: string;
  /** The server that the journal names: `*` at the address of all servers, until the server is found. */
  readonly server: string;
  /** The name of the tool as it is called at this address. */
  readonly name: string;
}

export interface CellSession {
  /** Undefined where the gateway itself opens the session for a user. */
  readonly id: string | undefined;
  readonly userId: string;
  readonly token: string;
  /** Undefined in the modern era, and where a client has none. */
  readonly transportId: string | undefined;
}

const bothEras: readonly Era[] = ['handshake', 'modern'];
const ownServer = 'ambit';
const wrongToken = 'nobody';

/** The refusals before the server of the tool is found. */
const earlyCodes: readonly unknown[] = [
  ...['UNAUTHENTICATED', 'SESSION_EXPIRED', 'SESSION_ENDED', 'QUOTA_EXCEEDED', 'SERVER_NOT_AVAILABLE'],
  ...[-32600, -32602, -32000, -32001],
];

function addressesOf({ server, tool }: Target, { code }: Kind): Pick<Cell, 'path' | 'server' | 'name'>[] {
  const one = server ?? ownServer;
  const found = earlyCodes.includes(code) ? '*' : one;
  return [
    { path: '/mcp', server: found, name: server === undefined ? tool : `${server}__${tool}` },
    { path: `/mcp/${one}`, server: one, name: tool },
  ];
}

export const cells: readonly Cell[] = kinds.flatMap((kind) =>
  kind.targets.flatMap((target) =>
    addressesOf(target, kind).flatMap((address) =>
      (kind.eras ?? bothEras).map((era) => ({ kind, target, era, ...address })),
    ),
  ),
);

export function writeTitle({ kind, path, name, era }: Cell): string {
  return `${kind.name} · ${path} ${name.slice(0, 40)} · ${era}`;
}

async function openTransport(url: string, token: string): Promise<string> {
  const opened = await post(url, token, JSON.stringify(initializeRequest()));
  const transportId = opened.headers['mcp-session-id'];
  if (typeof transportId !== 'string') throw new Error(`no transport: ${opened.status} ${opened.text}`);
  const headers = { 'mcp-session-id': transportId, 'mcp-protocol-version': handshake };
  await post(url, token, '{"jsonrpc":"2.0","method":"notifications/initialized"}', headers);
  return transportId;
}

/** The session of a cell, with the token that opens its transport. */
async function openSession(
  on: RefusingGateway,
  { kind }: Cell,
  user: string,
): Promise<Omit<CellSession, 'transportId'>> {
  if (kind.credential === 'access token') {
    return { id: undefined, userId: `people|${user}`, token: await on.accessToken(user) };
  }
  const { id, token } = await on.gateway.createSession({ trustLevel: 'direct', userId: user, ...kind.draft });
  return { id, userId: user, token };
}

async function transportOf(on: RefusingGateway, cell: Cell, token: string): Promise<string | undefined> {
  const { era, path, kind } = cell;
  const hasNone = kind.transport === 'none' || (kind.transport === 'none of the server' && path !== '/mcp');
  if (era === 'modern' || hasNone) return undefined;
  const other = kind.transport === 'foreign' ? await on.gateway.createSession({ userId: 'other' }) : { token };
  return openTransport(`${on.url}${path}`, other.token);
}

/** Opens the session of a cell and, in the handshake era, its transport, while every server still answers. */
export async function openCell(on: RefusingGateway, cell: Cell, index: number): Promise<CellSession> {
  const opened = await openSession(on, cell, `user-${index}`);
  const transportId = await transportOf(on, cell, opened.token);
  return { ...opened, transportId, ...(cell.kind.credential === 'wrong token' ? { token: wrongToken } : {}) };
}

interface CallOptions {
  readonly era?: Era;
  readonly transportId?: string | undefined;
  readonly meta?: Record<string, unknown> | undefined;
}

function sendCall(
  url: string,
  token: string,
  name: string,
  args: Record<string, unknown>,
  { era = 'modern', transportId, meta }: CallOptions = {},
): Promise<PostAnswer> {
  const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
  if (era === 'modern') {
    const message = modernRequest(1, 'tools/call', { ...params, _meta: { ...modernMeta, ...meta } });
    return post(url, token, JSON.stringify(message), modernHeaders('tools/call', name));
  }
  const transport = transportId === undefined ? undefined : { 'mcp-session-id': transportId };
  const headers = { 'mcp-protocol-version': handshake, ...transport };
  return post(url, token, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }), headers);
}

/** Lists the tools of the approved server, so that they are pinned as they are before the gateway turns. */
export async function pinTools({ gateway, url }: RefusingGateway): Promise<void> {
  const { token } = await gateway.createSession({ trustLevel: 'direct', userId: 'first' });
  const body = JSON.stringify(modernRequest(1, 'tools/list'));
  const { text } = await post(`${url}/mcp/turncoat`, token, body, modernHeaders('tools/list'));
  if (!text.includes('"changing"')) throw new Error(`no tools: ${text}`);
}

function makeCall(on: RefusingGateway, { kind, era, path, name }: Cell, session: CellSession): Promise<PostAnswer> {
  const { token, transportId } = session;
  return sendCall(`${on.url}${path}`, token, name, kind.args ?? {}, { era, transportId, meta: kind.meta });
}

/** Brings the session of a cell into its state and makes its call, once the gateway has turned. */
export async function callCell(on: RefusingGateway, cell: Cell, session: CellSession, held: Held): Promise<PostAnswer> {
  const { narrow, before = [] } = cell.kind;
  const { id = '', token } = session;
  if (before.includes('answered before')) for (const _ of [1, 2]) await makeCall(on, cell, session);
  if (before.includes('all calls used')) {
    for (let used = 0; used < maxCalls; used++)
      await sendCall(`${on.url}/mcp/${ownServer}`, token, 'session_info', { session: 'current' });
  }
  if (before.includes('calls under way')) await fillUpstream(on, cell, session, held);
  if (narrow !== undefined) await on.gateway.restrictSession(id, narrow);
  if (before.includes('ended')) await on.gateway.endSession(id);
  return makeCall(on, cell, session);
}

/** Calls that are under way until the upstream breaks their connections. */
export interface Held {
  readonly calls: Promise<PostAnswer>[];
}

/** Makes calls that are not answered until one is refused. A bridge between the eras may have one under way by itself. */
async function fillUpstream(on: RefusingGateway, { era, path }: Cell, session: CellSession, held: Held): Promise<void> {
  const { id = '', token, transportId } = session;
  const name = path === '/mcp' ? 'good__hold' : 'hold';
  for (let isFull = false, count = 1; !isFull; count++) {
    const call = sendCall(`${on.url}${path}`, token, name, { session: id }, { era, transportId });
    held.calls.push(call);
    isFull = await Promise.race([on.upstream.held(id, count).then(() => false), call.then(() => true)]);
  }
}
