import type { LoggedMessage } from '../evidence/wire-log.ts';
import type { ReceivedNotifications } from './received-notifications.ts';
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

export type SdkOwn = Pick<
  McpClient,
  'era' | 'heard' | 'person' | 'errors' | 'wire' | 'streamOpened' | 'transportId' | 'call' | 'leave'
> &
  Partial<Pick<McpClient, 'watch' | 'listen'>>;

export function adaptClient(sdk: SdkClient, own: SdkOwn): McpClient {
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
    ...own,
    get transportId() {
      return own.transportId;
    },
  };
}

export function joinTexts(contents: readonly unknown[]): string {
  return contents.map((content) => String((content as TextLike).text ?? `(${JSON.stringify(content)})`)).join('\n');
}
