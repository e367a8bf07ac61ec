import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { RenewalError, type TokenGrant } from '../../../src/upstreams/auth/authorization-server.ts';
import {
  type LoginFacts,
  loginKey,
  loginsCollection,
  readLogin,
  sealLogin,
} from '../../../src/upstreams/auth/login.ts';
import { createLoginRenewal } from '../../../src/upstreams/auth/login-renewal.ts';
import type { SealingKeys } from '../../../src/upstreams/auth/sealed-documents.ts';
import { counts } from '../../proof.ts';

const key = { id: 'k', secret: createSecretKey(randomBytes(32)) };
const keys: SealingKeys = { current: () => key, make: async () => key };
const document = loginKey('ada', 'notes');

async function scene(facts: Partial<LoginFacts> = {}, refreshToken = 'r0') {
  const store = openMemoryStore();
  let time = 1_000_000;
  const used: string[] = [];
  const events: string[] = [];
  const login = {
    id: 'one',
    userId: 'ada',
    server: 'notes',
    issuer: 'https://as.example',
    scopes: ['read'],
    wanted: [],
    state: 'active' as const,
    madeAt: time,
    renewedAt: time,
    expiresAt: time + 600_000,
    ...facts,
  };
  const secrets = {
    url: 'https://notes.example/mcp',
    resource: 'https://notes.example/mcp',
    accessToken: 'a0',
    ...(refreshToken === '' ? {} : { refreshToken }),
    client: { clientId: 'c', method: 'none' as const },
    as: { issuer: 'https://as.example' },
  };
  await store.documents.put(loginsCollection, document, JSON.stringify(sealLogin(login, secrets, key)));
  let answer: (token: string) => Promise<TokenGrant> = async (token) => {
    const next = Number(token.slice(1)) + 1;
    return { accessToken: `a${next}`, refreshToken: `r${next}`, expiresAt: time + 600_000 };
  };
  /** One for each process that shares the store. */
  const process = () =>
    createLoginRenewal({
      store,
      keys,
      now: () => time,
      onEvent: (event) => void events.push(event),
      async requestTokens(_login, token) {
        used.push(token);
        return answer(token);
      },
    });
  return {
    process,
    used,
    events,
    later: (ms: number) => {
      time += ms;
    },
    answering(next: typeof answer) {
      answer = next;
    },
    async stored() {
      const found = await store.documents.get(loginsCollection, document);
      return readLogin(document, found?.text ?? '')?.facts;
    },
    remove: () => store.documents.delete(loginsCollection, document),
  };
}

test('concurrent renewals in several processes use each refresh token once', async () => {
  const { process, used, later, stored } = await scene();
  const processes = Array.from({ length: 4 }, process);
  const rounds = counts(5, 50);
  for (let round = 1; round <= rounds; round++) {
    later(590_000);
    const asking = Array.from({ length: 40 }, (_, i) => processes[i % 4]?.ensureFresh('ada', 'notes'));
    const tokens = (await Promise.all(asking)).map((login) => login?.accessToken);
    expect(new Set(tokens)).toEqual(new Set([`a${round}`]));
  }
  expect(used).toEqual(Array.from({ length: rounds }, (_, i) => `r${i}`));
  expect(await stored()).toMatchObject({ state: 'active', rotates: true });
  expect(await stored()).not.toHaveProperty('lease');
});

test('an expired lease counts as a used refresh token: it is not tried again', async () => {
  const { process, used, later, stored, events } = await scene({ lease: { by: 'dead', until: 1_060_000 } });
  later(590_000);
  // While the token holds it goes on being used; when it does not, only the user can help.
  expect((await process().ensureFresh('ada', 'notes'))?.accessToken).toBe('a0');
  later(20_000);
  expect(await process().ensureFresh('ada', 'notes')).toBeUndefined();
  expect(used).toEqual([]);
  expect(await stored()).toMatchObject({ state: 'lost' });
  expect(events).toEqual(['login-lost']);
});

test('a refresh token that works many times is tried again', async () => {
  const { process, used, later, answering } = await scene({ rotates: false, lease: { by: 'dead', until: 1_060_000 } });
  later(590_000);
  answering(async () => ({ accessToken: 'next', expiresAt: 9_000_000 }));
  expect((await process().ensureFresh('ada', 'notes'))?.accessToken).toBe('next');
  expect(used).toEqual(['r0']);
});

test.each([
  ['later', 'active'],
  ['unknown', 'lost'],
  ['refused', 'lost'],
] as const)('a renewal that ends as %s leaves the login %s', async (how, state) => {
  const { process, used, later, answering, stored } = await scene();
  const renewal = process();
  later(590_000);
  answering(async () => {
    throw new RenewalError(how, 'because');
  });
  const found = await renewal.ensureFresh('ada', 'notes');
  expect(found?.accessToken).toBe(state === 'active' ? 'a0' : undefined);
  await renewal.ensureFresh('ada', 'notes');
  expect(used).toEqual(['r0']);
  expect(await stored()).toMatchObject({ state });
});

test('a login that is removed during its renewal stays removed', async () => {
  const { process, later, answering, remove, stored } = await scene();
  later(590_000);
  answering(async () => {
    await remove();
    return { accessToken: 'late', refreshToken: 'r1' };
  });
  expect(await process().ensureFresh('ada', 'notes')).toBeUndefined();
  expect(await stored()).toBeUndefined();
});

test('a login without a refresh token is used until it expires, and then lost', async () => {
  const { process, later, used } = await scene({}, '');
  later(590_000);
  expect((await process().ensureFresh('ada', 'notes'))?.accessToken).toBe('a0');
  later(20_000);
  expect(await process().ensureFresh('ada', 'notes')).toBeUndefined();
  expect(used).toEqual([]);
});

test('its facts are readable in the store; its secrets are not, and open under no other name', async () => {
  const { stored } = await scene();
  const facts = (await stored()) as LoginFacts;
  const text = JSON.stringify(sealLogin(facts, {} as never, key));
  expect(readLogin(document, text)?.facts.userId).toBe('ada');
  expect(readLogin(loginKey('eve', 'notes'), text)).toBeUndefined();
  const moved = readLogin(loginKey('eve', 'notes'), text.replace('"ada"', '"eve"'));
  const { openLogin } = await import('../../../src/upstreams/auth/login.ts');
  expect(moved === undefined ? undefined : openLogin(moved, key)).toBeUndefined();
});
