import type { McpTransport } from '../../src/library/in-process-transport.ts';

export interface RawMessage {
  readonly id?: number;
  readonly method?: string;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A client without an SDK, so that nothing between the test and the gateway hides a message. */
export interface RawClient {
  request(method: string, params?: Record<string, unknown>): Promise<RawMessage>;
  /** The words of a tool's result, or of the refusal. */
  call(name: string, args?: Record<string, unknown>): Promise<string>;
  tools(): Promise<string[]>;
  /** Resolves at the next notification of that method. */
  told(method: string): Promise<void>;
  close(): Promise<void>;
}

const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

export async function rawClient(transport: McpTransport, era: 'modern' | 'handshake'): Promise<RawClient> {
  const waiting = new Map<number, (message: RawMessage) => void>();
  const listeners = new Set<(message: RawMessage) => void>();
  let count = 0;
  transport.onmessage = (message: RawMessage) => {
    if (message.id !== undefined && message.method === undefined) waiting.get(message.id)?.(message);
    for (const listener of listeners) listener(message);
  };
  await transport.start();

  function request(method: string, params: Record<string, unknown> = {}): Promise<RawMessage> {
    const id = ++count;
    const own = era === 'modern' ? { ...params, _meta: modernMeta } : params;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      void transport.send({ jsonrpc: '2.0', id, method, params: own });
    });
  }

  if (era === 'handshake') {
    const clientInfo = { name: 'raw', version: '1' };
    await request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  return {
    request,
    async call(name, args = {}) {
      const { result, error } = await request('tools/call', { name, arguments: args });
      const content = (result?.['content'] ?? []) as { readonly text?: string }[];
      return error?.message ?? content.map(({ text }) => text).join('');
    },
    async tools() {
      const { result } = await request('tools/list');
      return ((result?.['tools'] ?? []) as { readonly name: string }[]).map(({ name }) => name);
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
