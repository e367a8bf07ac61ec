import { Agent, request } from 'node:http';

/** What came back for one POST, whatever its form. */
export interface Said {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Every JSON-RPC message of the answer, the final one last. */
  readonly messages: readonly Spoken[];
}

export interface Spoken {
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

const agent = new Agent({ keepAlive: true, maxSockets: 512 });

export function post(
  url: string,
  token: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Said> {
  const all = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: 'POST', headers: all, agent, ...(signal && { signal }) }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          messages: messagesIn(text, response.headers['content-type'] ?? ''),
        });
      });
    });
    sending.on('error', reject);
    sending.end(body);
  });
}

function messagesIn(text: string, type: string): Spoken[] {
  if (!type.startsWith('text/event-stream')) return text === '' ? [] : [JSON.parse(text) as Spoken];
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as Spoken);
}

/** One tool call of the modern era. */
export function callModern(
  url: string,
  token: string,
  name: string,
  args: Record<string, unknown> = {},
  more: { readonly id?: unknown; readonly signal?: AbortSignal; readonly meta?: Record<string, unknown> } = {},
): Promise<Said> {
  const body = modernRequest(more.id ?? 1, 'tools/call', { name, arguments: args, _meta: more.meta ?? {} });
  return post(url, token, JSON.stringify(body), modernHeaders('tools/call', name), more.signal);
}

export interface Client {
  readonly transportId: string;
  readonly headers: Record<string, string>;
  send(message: Record<string, unknown>, signal?: AbortSignal): Promise<Said>;
  call(name: string, args?: Record<string, unknown>, id?: unknown): Promise<Said>;
  /** Says DELETE. */
  leave(): Promise<void>;
}

export function initialize(capabilities: Record<string, unknown> = {}, version = handshake): Record<string, unknown> {
  const clientInfo = { name: 'hostile-test', version: '1' };
  return {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: version, capabilities, clientInfo },
  };
}

/** A client of the handshake era, its handshake done. */
export async function openClient(
  url: string,
  token: string,
  capabilities: Record<string, unknown> = {},
): Promise<Client> {
  const opened = await post(url, token, JSON.stringify(initialize(capabilities)));
  const transportId = opened.headers['mcp-session-id'];
  if (typeof transportId !== 'string') throw new Error(`no transport session: ${opened.status} ${opened.text}`);
  const headers = { 'mcp-session-id': transportId, 'mcp-protocol-version': handshake };
  const send: Client['send'] = (message, signal) =>
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
export function outcome(said: Said): string {
  const last = said.messages.at(-1);
  if (last === undefined) return `nothing (${said.status})`;
  const code = last.result?._meta?.['ambit/error']?.code ?? last.error?.data?.code ?? last.error?.code;
  if (code !== undefined) return `!${code}`;
  return last.result?.content?.map((block) => block.text).join('') ?? said.text;
}
