import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

export type Era = 'modern' | 'handshake';
export const eras: readonly Era[] = ['handshake', 'modern'];
const versions = { modern: '2026-07-28', handshake: '2025-11-25' } as const;

export interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly result?: {
    readonly isError?: boolean;
    readonly content?: readonly { readonly text: string }[];
    readonly _meta?: { readonly 'ambit/error'?: { readonly code: string } };
  };
  readonly error?: { readonly code: number; readonly message: string };
}

/** One HTTP request on a connection of its own. */
export interface Exchange {
  /** Something has come before the answer: progress, an acknowledgement, the headers of a stream. */
  readonly begun: Promise<void>;
  readonly answered: Promise<Answer>;
  /** The other side has closed, or `cut` was called. */
  readonly closed: Promise<void>;
  cut(): void;
}

export interface Answer {
  readonly status: number;
  readonly transportId: string | undefined;
  readonly message: Message | undefined;
}

export interface Endpoint {
  readonly url: string;
  readonly token: string;
}

/** The upstream as a started call describes it. */
export interface Whoami {
  readonly pid: number;
  readonly handshakes: number;
  readonly initialized: boolean;
  readonly grandchildren: readonly number[];
}

/** A client of one era in one session, as bare as the wire. */
export interface RawClient {
  readonly era: Era;
  readonly transportId: string | undefined;
  call(tool: string, args?: Record<string, unknown>): Exchange;
  whoami(): Promise<Whoami>;
  /** GET in the handshake era, `subscriptions/listen` in the modern one. */
  stream(): Exchange;
  /** DELETE in the handshake era; the modern era has no goodbye. */
  leave(): Promise<number>;
}

let lastId = 0;

/** With the id of a transport session there is, it shakes no hands. */
export async function connectRawClient(
  era: Era,
  door: Endpoint,
  capabilities: Record<string, unknown> = {},
  known?: string,
): Promise<RawClient> {
  const transportId = era === 'modern' ? undefined : (known ?? (await initialize(door, capabilities)));
  const base: Record<string, string> = { 'mcp-protocol-version': versions[era] };
  if (transportId !== undefined) base['mcp-session-id'] = transportId;

  function post(method: string, params: Record<string, unknown>, name?: string): Exchange {
    const id = ++lastId;
    const _meta = { progressToken: id, ...(era === 'modern' ? description : {}) };
    const headers = {
      ...base,
      ...(era === 'modern' ? { 'mcp-method': method } : {}),
      ...(name && { 'mcp-name': name }),
    };
    return sendRequest(door, 'POST', headers, { jsonrpc: '2.0', id, method, params: { ...params, _meta } });
  }

  const call = (tool: string, args = {}) => post('tools/call', { name: tool, arguments: args }, tool);
  return {
    era,
    transportId,
    call,
    whoami: async () => readWhoami(await call('whoami').answered),
    stream() {
      if (era === 'handshake') return sendRequest(door, 'GET', base);
      return post('subscriptions/listen', { notifications: { toolsListChanged: true } });
    },
    async leave() {
      return era === 'modern' ? 200 : (await sendRequest(door, 'DELETE', base).answered).status;
    },
  };
}

const description = {
  'io.modelcontextprotocol/protocolVersion': versions.modern,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'visitor', version: '1' },
};

async function initialize(door: Endpoint, capabilities: Record<string, unknown>): Promise<string> {
  const clientInfo = { name: 'visitor', version: '1' };
  const params = { protocolVersion: versions.handshake, capabilities, clientInfo };
  const message = { jsonrpc: '2.0', id: ++lastId, method: 'initialize', params };
  const { transportId, message: answer } = await sendRequest(door, 'POST', {}, message).answered;
  if (transportId === undefined) throw new Error(`no transport session: ${JSON.stringify(answer)}`);
  const headers = { 'mcp-session-id': transportId, 'mcp-protocol-version': versions.handshake };
  await sendRequest(door, 'POST', headers, { jsonrpc: '2.0', method: 'notifications/initialized' }).answered;
  return transportId;
}

export function readWhoami({ message }: Answer): Whoami {
  const said = message?.result?.content?.[0]?.text;
  if (said === undefined || message?.result?.isError) throw new Error(`no answer: ${JSON.stringify(message)}`);
  return JSON.parse(said) as Whoami;
}

/** The code of a refused tool call; undefined when it was not refused in that form. */
export function readRefusalCode({ message }: Answer): string | undefined {
  return message?.result?.isError ? message.result._meta?.['ambit/error']?.code : undefined;
}

function sendRequest(door: Endpoint, method: string, headers: Record<string, string>, body?: unknown): Exchange {
  let begin: () => void = () => {};
  let neverBegun: (reason: unknown) => void = () => {};
  const begun = new Promise<void>((resolve, reject) => {
    begin = resolve;
    neverBegun = reject;
  });
  const asking = request(door.url, {
    method,
    agent: false,
    headers: {
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${door.token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
  });
  const answered = new Promise<Answer>((resolve, reject) => {
    asking.on('error', reject);
    asking.on('response', (response) => {
      if (method === 'GET' && response.statusCode === 200) begin();
      readAnswer(response, begin).then((message) => {
        const transportId = response.headers['mcp-session-id'] as string | undefined;
        resolve({ status: response.statusCode ?? 0, transportId, message });
      }, reject);
    });
  });
  answered.then((answer) => neverBegun(new Error(`answered at once: ${JSON.stringify(answer)}`)), neverBegun);
  // Not everyone waits for both.
  begun.catch(() => {});
  const closed = new Promise<void>((resolve) => {
    asking.on('close', resolve);
  });
  asking.end(body === undefined ? undefined : JSON.stringify(body));
  return { begun, answered, closed, cut: () => void asking.destroy() };
}

async function readAnswer(response: IncomingMessage, begin: () => void): Promise<Message | undefined> {
  if (!response.headers['content-type']?.startsWith('text/event-stream')) {
    const body = await text(response);
    return body === '' ? undefined : (JSON.parse(body) as Message);
  }
  let rest = '';
  let final: Message | undefined;
  for await (const chunk of response.setEncoding('utf8')) {
    const events = (rest + chunk).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (!data) continue;
      const message = JSON.parse(data) as Message;
      if (message.method === undefined) final = message;
      else begin();
    }
  }
  return final;
}
