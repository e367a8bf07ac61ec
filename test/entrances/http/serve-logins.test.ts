import { expect, test } from 'vitest';
import { createLoginCookie } from '../../../src/entrances/http/serve-logins.ts';

test('S6: over https no sibling domain can set the cookie of a login, and of two cookies none counts', () => {
  const value = 'v'.repeat(43);
  const secure = createLoginCookie(new URL('https://gate.example/ambit'));
  // The prefix makes browsers refuse it with a domain, another path, or from plain http.
  expect(secure.set(value)).toBe(`__Host-ambit-login=${value}; HttpOnly; SameSite=Lax; Max-Age=600; Path=/; Secure`);
  expect(secure.read(`a=b; __Host-ambit-login=${value}`)).toBe(value);
  expect(secure.read(`ambit-login=${value}`)).toBeUndefined();
  expect(secure.read(`__Host-ambit-login=${value}; __Host-ambit-login=${'w'.repeat(43)}`)).toBeUndefined();
  expect(secure.read(undefined)).toBeUndefined();
});
