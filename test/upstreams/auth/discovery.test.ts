import { expect, test } from 'vitest';
import { readChallenge } from '../../../src/upstreams/auth/authorization-server.ts';

test('a bearer challenge is read among other schemes and in any order', () => {
  expect(readChallenge(undefined)).toBeUndefined();
  expect(readChallenge('Basic realm="Bearer scope=x"')).toBeUndefined();
  expect(readChallenge('Bearer')).toEqual({ scopes: [] });
  expect(readChallenge('bearer error=invalid_token')).toEqual({ scopes: [], error: 'invalid_token' });
  expect(
    readChallenge('Basic realm="a, b", Bearer scope="read  write read", resource_metadata="https://a.example/\\"x"'),
  ).toEqual({ scopes: ['read', 'write'], resourceMetadata: 'https://a.example/"x' });
  expect(readChallenge('Bearer scope="a", Basic realm="x", error="no"')).toEqual({ scopes: ['a'] });
});

test('a long or broken challenge is ignored', () => {
  expect(readChallenge(`Bearer ${'a="b",'.repeat(5000)}`)).toBeUndefined();
  expect(readChallenge(`Bearer scope="${'\\'.repeat(8000)}`)).toEqual({ scopes: [] });
  expect(readChallenge('Bearer scope="a\u0000b c"')).toEqual({ scopes: ['c'] });
});
