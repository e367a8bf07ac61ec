import type { Gateway } from '../../../src/gateway/gateway.ts';
import { createInProcessTransport } from '../../../src/public/create-gateway.ts';
import { type Exchange, sendRaw } from '../http-exchange.ts';

/** A client of one tenant at one address. Every byte that it receives is kept. */
export interface TenantClient {
  /** The answer, parsed. Questions on the way are answered with `reply`. */
  ask(method: string, params?: Record<string, unknown>, meta?: Record<string, unknown>): Promise<Answer>;
  /** Opens the stream of what comes unasked; resolves when it is open. */
  listen(): Promise<void>;
  close(): Promise<void>;
}

export interface Answer {
  readonly id?: unknown;
  readonly method?: string;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

export interface TenantClientOptions {
  readonly gateway: Gateway;
  readonly url: string;
  /** `*` for all. */
  readonly server: string;
  readonly session: { readonly id: string; readonly token: string };
  readonly era: 'modern' | 'handshake';
  readonly entrance: 'http' | 'stdio';
  /** The name of the client and its answer to questions. */
  readonly clientName: string;
  readonly reply: string;
  readonly header: string;
  readonly hear: (text: string) => void;
}

const version = { modern: '2026-07-28', handshake: '2025-11-25' };
const capabilities = { elicitation: {} };
const prefix = 'io.modelcontextprotocol/';
const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };

export async function connectTenantClient(options: TenantClientOptions): Promise<TenantClient> {
  const { era, reply, clientName } = options;
  const clientInfo = { name: clientName, version: clientName };
  const modernMeta = {
    [`${prefix}protocolVersion`]: version.modern,
    [`${prefix}clientCapabilities`]: capabilities,
    [`${prefix}clientInfo`]: clientInfo,
    [`${prefix}logLevel`]: 'debug',
  };
  const line = options.entrance === 'http' ? connectOverHttp(options) : await connectOnStdio(options);
  let count = 0;

  async function ask(method: string, params = {}, meta = {}): Promise<Answer> {
    const id = `${clientName}-${++count}`;
    const _meta = era === 'modern' ? { ...modernMeta, ...meta } : meta;
    return line.request({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }, answerQuestion);
  }

  function answerQuestion({ id }: Answer): Record<string, unknown> {
    return { jsonrpc: '2.0', id, result: { action: 'accept', content: { words: reply } } };
  }

  if (era === 'handshake') {
    await ask('initialize', { protocolVersion: version.handshake, capabilities, clientInfo });
    await line.notify({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }
  return {
    ask,
    listen: () =>
      line.listen({
        jsonrpc: '2.0',
        id: `${clientName}-listens`,
        method: 'subscriptions/listen',
        params: { notifications: lists, _meta: modernMeta },
      }),
    close: line.close,
  };
}

interface Line {
  request(message: Outgoing, onQuestion: (question: Answer) => Record<string, unknown>): Promise<Answer>;
  notify(message: object): Promise<void>;
  listen(message: Outgoing): Promise<void>;
  close(): Promise<void>;
}

interface Outgoing {
  readonly jsonrpc: string;
  readonly id: string;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

function connectOverHttp({ url, server, session, era, header, hear }: TenantClientOptions): Line {
  const address = server === '*' ? `${url}/mcp` : `${url}/mcp/${server}`;
  let transport: string | undefined;
  const streams: Exchange[] = [];
  const heardAll: Promise<void>[] = [];

  async function post(message: object & { method?: string; params?: Record<string, unknown> }): Promise<Exchange> {
    const { method, params } = message;
    const name = params?.['name'] ?? params?.['uri'];
    const modern = { 'mcp-method': method ?? '', ...(typeof name === 'string' ? { 'mcp-name': name } : {}) };
    const headers = {
      authorization: `Bearer ${session.token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version[era],
      'user-agent': header,
      'x-planted': header,
      ...(era === 'modern' ? modern : {}),
      ...(transport === undefined ? {} : { 'mcp-session-id': transport }),
    };
    const sent = await sendRaw(address, { headers, body: JSON.stringify(message) });
    hear(JSON.stringify(sent.headers));
    return sent;
  }

  async function readAll(sent: Exchange): Promise<void> {
    for (let text = await sent.next(); text !== undefined; text = await sent.next()) hear(text);
  }

  return {
    async request(message, onQuestion) {
      const sent = await post(message);
      const opened = sent.headers['mcp-session-id'];
      if (message.method === 'initialize' && typeof opened === 'string') transport = opened;
      let answer: Answer = {};
      for (let text = await sent.next(); text !== undefined; text = await sent.next()) {
        hear(text);
        const heard = JSON.parse(text) as Answer;
        if (heard.method === undefined) answer = heard;
        else if (heard.id !== undefined) await readAll(await post(onQuestion(heard)));
      }
      return answer;
    },
    notify: async (message) => readAll(await post(message)),
    async listen(message) {
      const headers = { authorization: `Bearer ${session.token}`, accept: 'text/event-stream' };
      const mine = { ...headers, 'mcp-session-id': transport ?? '', 'mcp-protocol-version': version.handshake };
      const stream = era === 'modern' ? await post(message) : await sendRaw(address, { method: 'GET', headers: mine });
      streams.push(stream);
      // A modern stream is open when it has said so.
      if (era === 'modern') hear((await stream.next()) ?? '');
      heardAll.push(readAll(stream).catch(() => {}));
    },
    async close() {
      for (const stream of streams) stream.close();
      await Promise.all(heardAll);
    },
  };
}

async function connectOnStdio({ gateway, server, session, era, hear }: TenantClientOptions): Promise<Line> {
  const transport = createInProcessTransport(gateway, session.id, server);
  const waiting = new Map<unknown, (answer: Answer) => void>();
  let answerTo: (question: Answer) => Record<string, unknown> = () => ({});
  let acknowledged = () => {};
  transport.onmessage = (message: Answer) => {
    hear(JSON.stringify(message));
    if (message.method === 'notifications/subscriptions/acknowledged') acknowledged();
    if (message.method === undefined) waiting.get(message.id)?.(message);
    else if (message.id !== undefined) void transport.send(answerTo(message));
  };
  await transport.start();
  return {
    request(message, onQuestion) {
      answerTo = onQuestion;
      return new Promise((resolve) => {
        waiting.set(message.id, resolve);
        void transport.send(message);
      });
    },
    notify: (message) => transport.send(message),
    async listen(message) {
      // In the era of handshakes there is one stream for everything.
      if (era === 'handshake') return;
      await new Promise<void>((resolve) => {
        acknowledged = resolve;
        void transport.send(message);
      });
    },
    close: () => transport.close(),
  };
}
