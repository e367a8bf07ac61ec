import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AmbitError } from '../../../src/errors.ts';
import { closeStreamOnKeyRevoked } from '../../../src/gateway/stages/close-stream-on-key-revoked.ts';
import type { SessionRequest } from '../../../src/gateway/stages/handle-transport.ts';
import type { UserPrincipal } from '../../../src/identity/principal.ts';
import { parseToken } from '../../../src/identity/token.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

const ceiling = { trustLevel: 'sandboxed', workspaces: null, scopes: [] } as const;
const principal: UserPrincipal = { kind: 'user', userId: 'ana', via: 'key', keyId: 'ext-1', ceiling };
const refuse = (code: 'UNAUTHENTICATED' | 'IDENTITY_UNAVAILABLE' | 'STORE_UNAVAILABLE') => async () => {
  throw new AmbitError(code);
};

test.each<[string, () => Promise<UserPrincipal>, boolean]>([
  ['is accepted', async () => principal, false],
  ['cannot be checked in the store', refuse('STORE_UNAVAILABLE'), false],
  ['is refused', refuse('UNAUTHENTICATED'), true],
  ['cannot be verified by its system', refuse('IDENTITY_UNAVAILABLE'), true],
  ['stands for someone else now', async () => ({ ...principal, userId: 'eve' }), true],
  ['has narrower limits now', async () => ({ ...principal, ceiling: { ...ceiling, workspaces: ['shop'] } }), true],
])('L12: a stream whose key %s: it is closed or stays', async (_what, verifyKey, isClosed) => {
  const close = vi.fn();
  const stage = closeStreamOnKeyRevoked({ verifyKey, onRevoked() {} });
  const session = { userId: 'ana', trustLevel: 'sandboxed', permissions: [] };
  const channel = { close, isGone: () => false, onGone() {} };
  const credential = { kind: 'bearer', presented: parseToken('pcp_some_key') };
  stage.before({ principal, session, channel, credential, intent: 'stream' } as unknown as SessionRequest);
  await vi.advanceTimersByTimeAsync(2000);
  expect(close).toHaveBeenCalledTimes(isClosed ? 1 : 0);
});
