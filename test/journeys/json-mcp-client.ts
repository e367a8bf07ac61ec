import { sendRaw } from './http-exchange.ts';
import { bearerHeader, jsonHeaders } from './raw-mcp-client.ts';

/** The answer to one POST, in any form. */
export interface PostAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Every JSON-RPC message of the answer, the final one last. */
  readonly messages: readonly RpcMessage[];
}

export interface RpcMessage {
  readonly jsonrpc?: string;
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: {
    readonly content?: readonly { readonly text: string }[];
    readonly isError?: boolean;
    readonly _meta?: Record<string, { readonly code?: string }>;
    readonly [key: string]: unknown;
  };
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly code?: string } };
}

export const modern = '2026-07-28';
export const handshake = '2025-11-25';

export const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': modern,
  'io.modelcontextprotocol/clientInfo': { name: 'hostile-test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

export function modernRequest(id: unknown, method: string, params: Record<string, unknown> = {}) {
  return {
    jsonrpc: '2.0',
    id,
    method,
    params: { ...params, _meta: { ...modernMeta, ...(params['_meta'] as object) } },
  };
}

export function modernHeaders(method: string, name?: string): Record<string, string> {
  return {
    'mcp-protocol-version': modern,
    'mcp-method': method,
    ...(name === undefined ? {} : { 'mcp-name': name }),
  };
}

/** Posts one body and reads the whole answer. */
export async function post(
  url: string,
  token: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<PostAnswer> {
  const all = { ...bearerHeader(token), ...jsonHeaders, ...headers };
  const sent = await sendRaw(url, { headers: all, body, ...(signal && { signal }) });
  const messages = await sent.rest();
  return {
    status: sent.status,
    headers: sent.headers,
    text: messages.join('\n'),
    messages: messages.map((each) => JSON.parse(each) as RpcMessage),
  };
}

/** One tool call of the modern era. */
export function callModern(
  url: string,
  token: string,
  name: string,
  args: Record<string, unknown> = {},
  more: { readonly id?: unknown; readonly signal?: AbortSignal; readonly meta?: Record<string, unknown> } = {},
): Promise<PostAnswer> {
  const body = modernRequest(more.id ?? 1, 'tools/call', { name, arguments: args, _meta: more.meta ?? {} });
  return post(url, token, JSON.stringify(body), modernHeaders('tools/call', name), more.signal);
}

export interface JsonClient {
  readonly transportId: string;
  readonly headers: Record<string, string>;
  send(message: Record<string, unknown>, signal?: AbortSignal): Promise<PostAnswer>;
  call(name: string, args?: Record<string, unknown>, id?: unknown): Promise<PostAnswer>;
  /** Says DELETE. */
  leave(): Promise<void>;
}

export function initializeRequest(
  capabilities: Record<string, unknown> = {},
  version = handshake,
  meta?: object,
): Record<string, unknown> {
  const clientInfo = { name: 'hostile-test', version: '1' };
  return {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: version, capabilities, clientInfo, ...(meta === undefined ? {} : { _meta: meta }) },
  };
}

/** A client of the handshake era, its handshake done. */
export async function openClient(
  url: string,
  token: string,
  capabilities: Record<string, unknown> = {},
  meta?: object,
): Promise<JsonClient> {
  const opened = await post(url, token, JSON.stringify(initializeRequest(capabilities, handshake, meta)));
  const transportId = opened.headers['mcp-session-id'];
  if (typeof transportId !== 'string') throw new Error(`no transport session: ${opened.status} ${opened.text}`);
  const headers = { 'mcp-session-id': transportId, 'mcp-protocol-version': handshake };
  const send: JsonClient['send'] = (message, signal) =>
    post(url, token, JSON.stringify({ jsonrpc: '2.0', ...message }), headers, signal);
  await send({ method: 'notifications/initialized' });
  return {
    transportId,
    headers,
    send,
    call: (name, args = {}, id = 1) => send({ id, method: 'tools/call', params: { name, arguments: args } }),
    async leave() {
      await fetch(url, { method: 'DELETE', headers: { authorization: `Bearer ${token}`, ...headers } });
    },
  };
}

/** The text of a tool's answer, or what refused it: `!CODE` for Ambit's refusals, `!-32000` for other errors. */
export function readOutcome(said: PostAnswer): string {
  const last = said.messages.at(-1);
  if (last === undefined) return `nothing (${said.status})`;
  const code = last.result?._meta?.['ambit/error']?.code ?? last.error?.data?.code ?? last.error?.code;
  if (code !== undefined) return `!${code}`;
  return last.result?.content?.map((block) => block.text).join('') ?? said.text;
}
