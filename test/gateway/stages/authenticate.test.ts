import { describe, expect, test } from 'vitest';
import { AmbitError, type ErrorCode } from '../../../src/errors.ts';
import { emptyJournalDraft } from '../../../src/gateway/exchange.ts';
import { authenticate, createIdentify, type IdentifyOptions } from '../../../src/gateway/stages/authenticate.ts';
import { parseToken } from '../../../src/identity/token.ts';
import type { Sessions } from '../../../src/sessions/sessions.ts';

const lenient = { anonymous: 'loopback', onInvalidKey: 'anonymous' } as const;
const unproven = { kind: 'bearer', presented: parseToken(`ambk_key_${'a'.repeat(49)}`) } as const;

/** What kind of principal a request comes to be, or the code it is refused with. Every key fails with `failure`. */
async function principalOf(
  credential: { readonly kind: 'none' } | typeof unproven,
  loopback: boolean,
  options: Pick<IdentifyOptions, 'anonymous' | 'onInvalidKey'>,
  failure: ErrorCode = 'UNAUTHENTICATED',
): Promise<string> {
  const stage = authenticate(
    createIdentify({
      ...options,
      sessions: {} as Sessions,
      keys: { verify: () => Promise.reject(new AmbitError(failure)) },
      log: { info() {}, warn() {} },
    }),
  );
  const exchange = {
    entrance: 'http',
    era: 'modern',
    server: 'notes',
    transportId: undefined,
    entry: emptyJournalDraft(),
    credential: { ...credential, loopback, address: loopback ? '127.0.0.1' : '192.0.2.1' },
  } as const;
  try {
    return (await stage.before(exchange)).principal.kind;
  } catch (error) {
    return (error as AmbitError).code;
  }
}

describe('a request without a credential', () => {
  test.each([
    ['loopback', true, 'anonymous'],
    ['loopback', false, 'UNAUTHENTICATED'],
    ['off', true, 'UNAUTHENTICATED'],
  ] as const)('with auth.anonymous: %s, from loopback: %s, is %s', async (anonymous, loopback, expected) => {
    expect(await principalOf({ kind: 'none' }, loopback, { anonymous, onInvalidKey: 'refuse' })).toBe(expected);
  });
});

describe('a credential that does not verify', () => {
  test('is served as anonymous only where both switches say so, and only from loopback', async () => {
    expect(await principalOf(unproven, true, lenient)).toBe('anonymous');
    expect(await principalOf(unproven, false, lenient)).toBe('UNAUTHENTICATED');
    expect(await principalOf(unproven, true, { ...lenient, anonymous: 'off' })).toBe('UNAUTHENTICATED');
    expect(await principalOf(unproven, true, { ...lenient, onInvalidKey: 'refuse' })).toBe('UNAUTHENTICATED');
  });

  test('is refused when nobody could say whether it verifies', async () => {
    expect(await principalOf(unproven, true, lenient, 'STORE_UNAVAILABLE')).toBe('STORE_UNAVAILABLE');
  });
});
