import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../src/index.ts';
import { credentialGateways } from '../gateway/credential-gateway.ts';
import { authorizationServer, browse, type ProviderSettings } from './authorization-server.ts';
import { guardedUpstream } from './guarded-upstream.ts';

const on = credentialGateways();
const port = 45_999;
const isBack = (url: string) => url.startsWith(`http://127.0.0.1:${port}/`);

async function scene(settings: ProviderSettings = {}) {
  const as = on.closing(await authorizationServer(settings));
  const far = on.closing(await guardedUpstream(as.issuer, as.jwksUri));
  const gateway = await on.start({ notes: { url: far.url, era: 'modern' } });
  return { as, far, gateway };
}

async function logIn(gateway: EmbeddedGateway, userId: string): Promise<string> {
  const { authorizationUrl } = await gateway.logins.start({ userId, server: 'notes' }, port);
  const callback = await browse(authorizationUrl, isBack);
  await gateway.logins.complete(callback, { userId, server: 'notes' });
  return callback;
}

const journal = () => readFileSync(join(on.folder, 'data', 'journal', 'journal.jsonl'), 'utf8');

describe('a server behind a real authorization server', () => {
  test('P14: whoever has not logged in is told how; who has is let in with a token of their own', async () => {
    const { as, far, gateway } = await scene();
    const [ada, eve] = [await on.clientOf(gateway, 'ada', 'notes'), await on.clientOf(gateway, 'eve', 'notes')];
    const refusal = await ada.call('read');
    expect(refusal).toContain('LOGIN_REQUIRED');
    expect(refusal).toContain('ambit login notes --user ada');
    await logIn(gateway, 'ada');
    expect(await ada.call('read')).toBe('done: read');
    expect(await eve.call('read')).toContain('LOGIN_REQUIRED');
    expect(gateway.logins.list()).toMatchObject([
      { userId: 'ada', server: 'notes', state: 'active', issuer: as.issuer },
    ]);
    const [token = ''] = far.tokens;
    const told = JSON.stringify(gateway.logins.list()) + on.lines.join('') + journal();
    expect(token).not.toBe('');
    expect(told).not.toContain(token);
  });
});
