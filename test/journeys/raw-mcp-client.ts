import { type Exchange, sendRaw } from './http-exchange.ts';

/** For what must come: a busy machine may need longer than the second that vitest waits by itself. */
export const patience = { timeout: 30_000 };

export type HandshakeVersion = '2025-11-25' | '2025-06-18' | '2025-03-26';

const modernVersion = '2026-07-28';
export const jsonHeaders = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

export function bearerHeader(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

/** The required members of `_meta` in a modern request. */
export const modernMeta = `"io.modelcontextprotocol/protocolVersion":"${modernVersion}","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`;

export interface ModernCall {
  readonly method?: string;
  /** The id's own text. */
  readonly id?: string;
  /** The inside of params beside `_meta`. */
  readonly params?: string;
  /** Further members of `_meta`. */
  readonly meta?: string;
  /** The header Mcp-Name, if the method has one. */
  readonly name?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function modernBody({ method = 'tools/call', id = '1', params, meta }: ModernCall): string {
  const inside = [...(params ? [params] : []), `"_meta":{${[modernMeta, ...(meta ? [meta] : [])].join(',')}}`];
  return `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":{${inside.join(',')}}}`;
}

/** Sends one request of the modern era, headers and all; `body` replaces what would have been sent. */
export function sendModern(url: string, token: string, call: ModernCall, body = modernBody(call)): Promise<Exchange> {
  const headers: Record<string, string> = {
    ...jsonHeaders,
    ...bearerHeader(token),
    'mcp-protocol-version': modernVersion,
    'mcp-method': call.method ?? 'tools/call',
    ...(call.name === undefined ? {} : { 'mcp-name': call.name }),
    ...call.headers,
  };
  return sendRaw(url, { headers, body });
}

/** A tool call of the modern era; `args` is the text of its arguments. */
export function callModern(url: string, token: string, name: string, args: string, more: ModernCall = {}) {
  return sendModern(url, token, { name, params: `"name":"${name}","arguments":${args}`, ...more });
}

export interface HandshakeClient {
  readonly transportId: string;
  readonly initialized: string;
  /** Posts one body as this client; headers of its own come last. */
  post(body: string, headers?: Readonly<Record<string, string>>): Promise<Exchange>;
  call(name: string, args: string, more?: { readonly id?: string; readonly meta?: string }): Promise<Exchange>;
  /** Opens the GET stream. */
  listen(): Promise<Exchange>;
  leave(): Promise<Exchange>;
}

export async function connectHandshake(
  url: string,
  token: string,
  version: HandshakeVersion = '2025-11-25',
  capabilities = '{"elicitation":{}}',
): Promise<HandshakeClient> {
  const headers = { ...jsonHeaders, ...bearerHeader(token) };
  const params = `{"protocolVersion":"${version}","capabilities":${capabilities},"clientInfo":{"name":"attacker","version":"1"}}`;
  const first = await sendRaw(url, {
    headers,
    body: `{"jsonrpc":"2.0","id":"init","method":"initialize","params":${params}}`,
  });
  const initialized = (await first.rest()).at(-1) ?? '';
  const transportId = first.headers['mcp-session-id'];
  if (typeof transportId !== 'string') throw new Error(`no handshake: ${first.status} ${initialized}`);
  const mine = { ...headers, 'mcp-session-id': transportId, 'mcp-protocol-version': version };
  const post = (body: string, more = {}) => sendRaw(url, { headers: { ...mine, ...more }, body });
  await (await post('{"jsonrpc":"2.0","method":"notifications/initialized"}')).rest();
  return {
    transportId,
    initialized,
    post,
    call: (name, args, { id = '1', meta = '' } = {}) =>
      post(
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args},"_meta":{${meta}}}}`,
      ),
    listen: () => sendRaw(url, { method: 'GET', headers: { ...mine, accept: 'text/event-stream' } }),
    leave: () => sendRaw(url, { method: 'DELETE', headers: mine }),
  };
}

interface Answer {
  readonly id: unknown;
  readonly result?: { readonly content?: readonly { readonly text: string }[] } & Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** The last message of an exchange, which is the answer, parsed. */
export async function readAnswer(sent: Exchange | Promise<Exchange>): Promise<Answer> {
  const all = await (await sent).rest();
  return JSON.parse(all.at(-1) ?? 'null') as Answer;
}

/** The text of a tool's answer. */
export async function readToolText(sent: Exchange | Promise<Exchange>): Promise<string> {
  const answer = await readAnswer(sent);
  const text = answer.result?.content?.[0]?.text;
  if (text === undefined) throw new Error(`no text in ${JSON.stringify(answer)}`);
  return text;
}
