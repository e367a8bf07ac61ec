import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, vi } from 'vitest';
import type { ConfigInput, EmbeddedGateway } from '../../../src/index.ts';
import {
  type AuthorizationServer,
  authorizationServer,
  browse,
  type ProviderSettings,
} from './authorization-server.ts';
import { type CredentialGateways, credentialGateways } from './credential-gateway.ts';
import { type GuardedUpstream, guardedUpstream } from './guarded-upstream.ts';

export interface Scene {
  readonly as: AuthorizationServer;
  readonly far: GuardedUpstream;
  readonly gateway: EmbeddedGateway;
}

/** Nobody listens there: what is sent back is looked at, not fetched. */
export const port = 9;
export const isBack = (url: string) => url.startsWith(`http://127.0.0.1:${port}/callback`);

/** A client that was registered by hand at the authorization server. */
export const registeredClient = {
  client_id: 'ambit-by-hand',
  client_secret: 'a-secret-of-more-than-24-characters',
  application_type: 'native',
  redirect_uris: [`http://127.0.0.1:${port}/callback`],
  grant_types: ['authorization_code', 'refresh_token'],
};

/** Gateways with a server "notes" behind a real authorization server. */
export function loginScenes(): CredentialGateways & {
  scene(settings?: ProviderSettings, more?: Partial<ConfigInput>): Promise<Scene>;
  guarded(settings?: ProviderSettings): Promise<Omit<Scene, 'gateway'>>;
  journal(): string;
} {
  const on = credentialGateways();
  // The clock stands still but for later(): however slow the machine is, a token is as old as the test says.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() }));
  afterEach(() => void vi.useRealTimers());
  async function guarded(settings: ProviderSettings = {}) {
    const as = on.closing(await authorizationServer(settings));
    return { as, far: on.closing(await guardedUpstream(as.issuer, as.jwksUri)) };
  }
  return Object.assign(on, {
    guarded,
    async scene(settings?: ProviderSettings, more: Partial<ConfigInput> = {}) {
      const { as, far } = await guarded(settings);
      const gateway = await on.start({ notes: { url: far.url, era: 'modern' } }, more);
      return { as, far, gateway };
    },
    journal: () => readFileSync(join(on.folder, 'data', 'journal', 'journal.jsonl'), 'utf8'),
  });
}

/** The address that the browser was redirected to. */
export async function logIn(gateway: EmbeddedGateway, userId: string): Promise<string> {
  const { authorizationUrl } = await gateway.logins.start({ userId, server: 'notes' }, port);
  const callback = await browse(authorizationUrl, isBack);
  await gateway.logins.complete(callback, { userId, server: 'notes' });
  return callback;
}

/** The clock of this process, and of all that run in it. */
export function later(seconds: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 });
}
