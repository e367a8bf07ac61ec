import type { Stream } from 'node:stream';
import { type LoggedMessage, logWire, type TransportLike } from '../evidence/wire-log.ts';
import { createStreamNoticingFetch } from './notice-stream.ts';
import {
  createReceivedNotifications,
  type Notification,
  type ReceivedNotifications,
} from './received-notifications.ts';
import type { SimulatedUser } from './simulated-user.ts';

export type Target =
  | { readonly kind: 'http'; readonly url: string; readonly token?: string }
  | { readonly kind: 'stdio'; readonly args: readonly string[] };

export interface CallOptions {
  readonly mark?: string;
  readonly signal?: AbortSignal;
  readonly logLevel?: 'info';
  onprogress?(progress: { progress: number; total?: number | undefined }): void;
}

type Undo = () => Promise<void>;

/** The same few verbs on every client, each done by the SDK's own method for it. */
export interface McpClient {
  readonly era: 'handshake' | 'modern';
  readonly offers: Readonly<Record<string, unknown>>;
  readonly heard: ReceivedNotifications;
  readonly person: SimulatedUser;
  /** Errors that the client itself reported, such as unexpected messages. */
  readonly errors: Error[];
  /** Everything that passed the transport since the client connected. */
  readonly wire: readonly LoggedMessage[];
  /** Resolves when a GET has been answered; never on stdio and in the modern era. */
  readonly streamOpened: Promise<void>;
  /** MCP's own session id; undefined on stdio and in the modern era. */
  readonly transportId: string | undefined;
  tools(): Promise<{ name: string; description?: string | undefined }[]>;
  call(tool: string, args?: Record<string, unknown>, options?: CallOptions): Promise<string>;
  resources(): Promise<string[]>;
  templates(): Promise<string[]>;
  read(uri: string): Promise<string>;
  prompts(): Promise<string[]>;
  prompt(name: string, args?: Record<string, string>): Promise<string>;
  complete(prompt: string, argument: string, value: string): Promise<string[]>;
  setLevel(level: 'debug' | 'error'): Promise<void>;
  ping(): Promise<void>;
  /** Asks for news of a resource, in the way of the era. */
  watch(uri: string): Promise<Undo>;
  /** Asks for news of lists; in the handshake era they come unasked. */
  listen(): Promise<Undo>;
  rootsChanged(): Promise<void>;
  /** Says goodbye where the transport has a word for it. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

export const requestTimeoutMs = 30_000;

interface TextLike {
  readonly text?: unknown;
}

/** The methods that have the same name in both SDKs. */
export interface SdkClient {
  onerror?: ((error: Error) => void) | undefined;
  fallbackNotificationHandler?: ((notice: Notification) => Promise<void>) | undefined;
  connect(transport: TransportLike, options: { timeout: number }): Promise<void>;
  getServerCapabilities(): object | undefined;
  listTools(): Promise<{ tools: { name: string; description?: string | undefined }[] }>;
  listResources(): Promise<{ resources: { uri: string }[] }>;
  listResourceTemplates(): Promise<{ resourceTemplates: { uriTemplate: string }[] }>;
  readResource(params: { uri: string }): Promise<{ contents: TextLike[] }>;
  listPrompts(): Promise<{ prompts: { name: string }[] }>;
  getPrompt(params: {
    name: string;
    arguments?: Record<string, string>;
  }): Promise<{ messages: { content: unknown }[] }>;
  complete(params: {
    ref: { type: 'ref/prompt'; name: string };
    argument: { name: string; value: string };
  }): Promise<{ completion: { values: string[] } }>;
  setLoggingLevel(level: 'debug' | 'error'): Promise<unknown>;
  ping(): Promise<unknown>;
  subscribeResource(params: { uri: string }): Promise<unknown>;
  unsubscribeResource(params: { uri: string }): Promise<unknown>;
  sendRootsListChanged(): Promise<void>;
  close(): Promise<void>;
}

interface HttpTransport extends TransportLike {
  readonly sessionId?: string | undefined;
  terminateSession(): Promise<void>;
}

interface StdioTransport extends TransportLike {
  readonly stderr: Stream | null;
}

/** The classes of one SDK. */
export interface Transports {
  readonly Http: new (url: URL, options: { fetch: typeof fetch; requestInit: RequestInit }) => HttpTransport;
  readonly Stdio: new (options: { command: string; args: string[]; stderr: 'pipe' }) => StdioTransport;
}

export const allCapabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
export type Capabilities = Partial<typeof allCapabilities>;

type Connection = Pick<McpClient, 'heard' | 'person' | 'errors' | 'wire' | 'streamOpened' | 'transportId' | 'leave'>;

/** Connects a client of either SDK; `streamAfter` holds its GET stream back. */
export async function openConnection(
  sdk: SdkClient,
  { Http, Stdio }: Transports,
  target: Target,
  person: SimulatedUser,
  streamAfter?: Promise<void>,
): Promise<Connection> {
  const heard = createReceivedNotifications();
  const errors: Error[] = [];
  const stream = createStreamNoticingFetch(streamAfter);
  sdk.onerror = (error) => void errors.push(error);
  sdk.fallbackNotificationHandler = async (notice) => heard.add(notice);
  const token = target.kind === 'http' ? target.token : undefined;
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const http =
    target.kind === 'http'
      ? new Http(new URL(target.url), { fetch: stream.fetch, requestInit: { headers } })
      : undefined;
  const stdio =
    target.kind === 'stdio'
      ? new Stdio({ command: process.execPath, args: [...target.args], stderr: 'pipe' })
      : undefined;
  const transport = (http ?? stdio) as TransportLike;
  await addStderrToError(stdio, sdk.connect(transport, { timeout: requestTimeoutMs }));
  return {
    heard,
    person,
    errors,
    wire: logWire(transport),
    streamOpened: stream.opened,
    get transportId() {
      return http?.sessionId;
    },
    async leave() {
      await http?.terminateSession();
      await sdk.close();
    },
  };
}

/** When a connection over stdio fails, the reason is usually on stderr. */
async function addStderrToError(stdio: StdioTransport | undefined, connecting: Promise<void>): Promise<void> {
  let said = '';
  stdio?.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  await connecting.catch((error: Error) => {
    if (said !== '') error.message += `\nstderr: ${said}`;
    throw error;
  });
}

export function adaptClient(
  sdk: SdkClient,
  connection: Connection,
  own: Pick<McpClient, 'era' | 'call'> & Partial<Pick<McpClient, 'watch' | 'listen'>>,
): McpClient {
  return {
    offers: { ...sdk.getServerCapabilities() },
    tools: async () => (await sdk.listTools()).tools,
    resources: async () => (await sdk.listResources()).resources.map(({ uri }) => uri),
    templates: async () => (await sdk.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    read: async (uri) => joinTexts((await sdk.readResource({ uri })).contents),
    prompts: async () => (await sdk.listPrompts()).prompts.map(({ name }) => name),
    prompt: async (name, args) =>
      joinTexts(
        (await sdk.getPrompt({ name, ...(args && { arguments: args }) })).messages.map(({ content }) => content),
      ),
    complete: async (prompt, argument, value) => {
      const ref = { type: 'ref/prompt', name: prompt } as const;
      return (await sdk.complete({ ref, argument: { name: argument, value } })).completion.values;
    },
    setLevel: async (level) => void (await sdk.setLoggingLevel(level)),
    ping: async () => void (await sdk.ping()),
    async watch(uri) {
      await sdk.subscribeResource({ uri });
      return async () => void (await sdk.unsubscribeResource({ uri }));
    },
    listen: async () => async () => {},
    rootsChanged: () => sdk.sendRootsListChanged(),
    close: () => sdk.close(),
    ...connection,
    ...own,
    get transportId() {
      return connection.transportId;
    },
  };
}

export function joinTexts(contents: readonly unknown[]): string {
  return contents.map((content) => String((content as TextLike).text ?? `(${JSON.stringify(content)})`)).join('\n');
}
