import type { McpTransport } from '../../src/public/create-gateway.ts';

export interface RawMessage {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A client without an SDK, so that nothing between the test and the gateway hides a message. */
export interface RawClient {
  /** The answer to its handshake. */
  readonly opened: RawMessage | undefined;
  /** All that came and was no answer to a request of its own. */
  readonly heard: readonly RawMessage[];
  send(message: Record<string, unknown>): void;
  request(method: string, params?: Record<string, unknown>): Promise<RawMessage>;
  /** The words of a tool's result, or of the refusal. */
  call(name: string, args?: Record<string, unknown>): Promise<string>;
  /** Those of the servers; Ambit's own are always there. */
  tools(): Promise<string[]>;
  /** Resolves at the next notification of that method. */
  told(method: string): Promise<void>;
  close(): Promise<void>;
}

const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** `meta` goes into the handshake, or into every modern request. */
export async function createRawClient(
  transport: McpTransport,
  era: 'modern' | 'handshake',
  { meta = {}, capabilities = {} }: { readonly meta?: object; readonly capabilities?: object } = {},
): Promise<RawClient> {
  const waiting = new Map<number, (message: RawMessage) => void>();
  const listeners = new Set<(message: RawMessage) => void>();
  const heard: RawMessage[] = [];
  let opened: RawMessage | undefined;
  let count = 0;
  transport.onmessage = (message: RawMessage) => {
    if (message.id !== undefined && message.method === undefined) waiting.get(message.id)?.(message);
    else heard.push(message);
    for (const listener of listeners) listener(message);
  };
  await transport.start();

  function request(method: string, params: Record<string, unknown> = {}): Promise<RawMessage> {
    const id = ++count;
    const said = { ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': capabilities, ...meta };
    const own = era === 'modern' ? { ...params, _meta: { ...said, ...(params['_meta'] as object) } } : params;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      void transport.send({ jsonrpc: '2.0', id, method, params: own });
    });
  }

  if (era === 'handshake') {
    const clientInfo = { name: 'raw', version: '1' };
    const params = { protocolVersion: '2025-11-25', capabilities, clientInfo };
    opened = await request('initialize', { ...params, ...(Object.keys(meta).length === 0 ? {} : { _meta: meta }) });
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  return {
    opened,
    heard,
    send: (message) => void transport.send({ jsonrpc: '2.0', ...message }),
    request,
    async call(name, args = {}) {
      const { result, error } = await request('tools/call', { name, arguments: args });
      const content = (result?.['content'] ?? []) as { readonly text?: string }[];
      return error?.message ?? content.map(({ text }) => text).join('');
    },
    async tools() {
      const { result } = await request('tools/list');
      const tools = (result?.['tools'] ?? []) as { readonly name: string }[];
      return tools.map(({ name }) => name).filter((name) => !name.startsWith('session_'));
    },
    told: (method) =>
      new Promise((resolve) => {
        const listener = (message: RawMessage) => {
          if (message.method !== method) return;
          listeners.delete(listener);
          resolve();
        };
        listeners.add(listener);
      }),
    close: () => transport.close(),
  };
}
