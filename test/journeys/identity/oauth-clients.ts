import {
  Client as ClientV2,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import type { OAuthClientProvider as OAuthClientProviderV1 } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { clientId, redirectUri } from './authorization-server.ts';

/** The state a host keeps for a user who signs in, with the address it would open in a browser. */
export function createOAuthProvider() {
  const kept: { tokens?: OAuthTokens; verifier?: string; sentTo?: URL; found?: OAuthDiscoveryState } = {};
  const provider = {
    redirectUrl: redirectUri,
    clientMetadata: { redirect_uris: [redirectUri], client_name: 'a host' },
    clientInformation: () => ({ client_id: clientId }),
    tokens: () => kept.tokens,
    saveTokens(tokens: OAuthTokens) {
      kept.tokens = tokens;
    },
    redirectToAuthorization(url: URL) {
      kept.sentTo = url;
    },
    saveCodeVerifier(verifier: string) {
      kept.verifier = verifier;
    },
    codeVerifier: () => kept.verifier ?? '',
    saveDiscoveryState(found: OAuthDiscoveryState) {
      kept.found = found;
    },
    discoveryState: () => kept.found,
  };
  return { kept, provider };
}

export interface OAuthClient {
  connect(): Promise<void>;
  /** After a person has signed in. */
  finish(callback: URLSearchParams): Promise<void>;
  call(name: string): Promise<string>;
  close(): Promise<void>;
}

const words = (result: unknown) => (result as { content: { text: string }[] }).content.map(({ text }) => text).join('');

export function createClientV1(url: string, { provider }: ReturnType<typeof createOAuthProvider>): OAuthClient {
  const make = () => new TransportV1(new URL(url), { authProvider: provider as OAuthClientProviderV1 });
  let [client, transport] = [new ClientV1({ name: 'v1', version: '1' }), make()];
  return {
    async connect() {
      [client, transport] = [new ClientV1({ name: 'v1', version: '1' }), make()];
      await client.connect(transport as unknown as Parameters<typeof client.connect>[0]);
    },
    finish: (callback) => transport.finishAuth(callback.get('code') ?? ''),
    call: async (name) => words(await client.callTool({ name, arguments: {} })),
    close: () => client.close(),
  };
}

export function createClientV2(
  url: string,
  { provider }: ReturnType<typeof createOAuthProvider>,
  mode: 'legacy' | 'auto',
): OAuthClient {
  const make = () => new TransportV2(new URL(url), { authProvider: provider as OAuthClientProvider });
  const makeClient = () => new ClientV2({ name: 'v2', version: '1' }, { versionNegotiation: { mode } });
  let [client, transport] = [makeClient(), make()];
  return {
    async connect() {
      [client, transport] = [makeClient(), make()];
      await client.connect(transport as unknown as Parameters<typeof client.connect>[0]);
    },
    finish: (callback) => transport.finishAuth(callback),
    call: async (name) => words(await client.callTool({ name, arguments: {} })),
    close: () => client.close(),
  };
}
