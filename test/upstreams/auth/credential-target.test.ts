import { describe, expect, test } from 'vitest';
import { assertCredentialValue, assertTarget, createTarget } from '../../../src/upstreams/auth/credential-target.ts';

const stdio = { name: 'notes', kind: 'stdio', scope: 'session' } as const;
const http = { name: 'search', kind: 'http' } as const;
const invalid = expect.objectContaining({ code: 'REQUEST_INVALID' });

function refused(work: () => void): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('where a credential may go', () => {
  test.each(['NOTES_TOKEN', 'GITHUB_TOKEN', '_x', 'a1'])('as the variable %s', (name) => {
    expect(refused(() => assertTarget(createTarget('ada', 'notes', 'env', name), stdio, ['AMBIT']))).toBeUndefined();
  });

  test.each([
    ...['AMBIT_SESSION_ID', 'AMBIT_ANYTHING', 'ambit_user_id', 'PARACHUTE_USER_ID', 'ORBIT_TRUST_LEVEL'],
    ...['LD_PRELOAD', 'ld_preload', 'DYLD_INSERT_LIBRARIES', 'NODE_OPTIONS', 'PATH', 'HOME', 'BASH_ENV', 'TMPDIR'],
    ...[
      'GIT_SSH_COMMAND',
      'PYTHONPATH',
      '',
      '1A',
      'A B',
      'A=B',
      'A\nB',
      'A\u0000',
      'Ä',
      'A/B',
      '../A',
      'x'.repeat(129),
    ],
  ])('never as the variable %j', (name) => {
    const place = createTarget('ada', 'notes', 'env', name);
    expect(refused(() => assertTarget(place, stdio, ['AMBIT', 'ORBIT']))).toEqual(invalid);
  });

  test.each(['Authorization', 'x-api-key', 'X-Auth-Token'])('in the header %s', (name) => {
    expect(refused(() => assertTarget(createTarget('ada', 'search', 'header', name), http, []))).toBeUndefined();
  });

  test.each([
    ...['Host', 'content-length', 'Content-Type', 'Transfer-Encoding', 'connection', 'Proxy-Authorization', 'Cookie'],
    ...['Mcp-Session-Id', 'mcp-param-x', 'Txn-Token', 'X-Forwarded-For', 'te', 'Upgrade', 'Expect', 'accept'],
    ...['Trailer', 'Keep-Alive', 'Accept-Encoding', 'Cookie2', 'Origin', 'Forwarded', 'Via', 'Last-Event-ID'],
    ...['', 'a b', 'a:b', 'a\r\nb', 'ä', 'a/b', 'x'.repeat(129)],
  ])('never in the header %j', (name) => {
    expect(refused(() => assertTarget(createTarget('ada', 'search', 'header', name), http, []))).toEqual(invalid);
  });

  test('not where there is no such thing, nor where several users are served', () => {
    expect(refused(() => assertTarget(createTarget('ada', 'notes', 'header', 'x-key'), stdio, []))).toEqual(invalid);
    expect(refused(() => assertTarget(createTarget('ada', 'search', 'env', 'KEY'), http, []))).toEqual(invalid);
    for (const scope of ['workspace', 'shared']) {
      expect(refused(() => assertTarget(createTarget('ada', 'notes', 'env', 'KEY'), { ...stdio, scope }, []))).toEqual(
        invalid,
      );
    }
    for (const scope of ['call', 'session', 'user']) {
      expect(
        refused(() => assertTarget(createTarget('ada', 'notes', 'env', 'KEY'), { ...stdio, scope }, [])),
      ).toBeUndefined();
    }
    for (const user of ['', 'x'.repeat(513), '\ud800', 'a\u0000']) {
      expect(refused(() => assertTarget(createTarget(user, 'notes', 'env', 'KEY'), stdio, []))).toEqual(invalid);
    }
  });

  test.each(['a\r\nX-Evil: 1', 'a\nb', 'a\rb', 'a\u0000b', 'ü', '\u007f', '', 'x'.repeat(8193)])(
    'a header never says %j',
    (value) => {
      expect(refused(() => assertCredentialValue('header', value))).toEqual(invalid);
    },
  );

  test('a variable may say what a header may not, but never on two lines', () => {
    expect(refused(() => assertCredentialValue('env', 'ü 😀'))).toBeUndefined();
    for (const value of ['a\nb', 'a\u0000b', '\ud800', '']) {
      expect(refused(() => assertCredentialValue('env', value))).toEqual(invalid);
    }
  });
});
