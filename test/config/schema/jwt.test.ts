import { expect, test } from 'vitest';
import { loadText, problemsOf } from '../load/load-text.ts';

const entry = (keys: string) => `{ audience: [a], jwksUri: "https://k.example/jwks", ${keys} }`;
const written = (...entries: string[]) => `version: 1\nauth: { jwt: [${entries.join(', ')}] }\n`;

test('issuers whose users would be named the same are refused, whatever else differs', async () => {
  const clash = 'another issuer has the same prefix of user names';
  const [a, b] = ['issuer: "https://id.example/realms/a"', 'issuer: "https://ID.example:443/realms/b"'];
  expect((await problemsOf(written(entry(a), entry(b)))).join()).toContain(clash);
  const { warnings } = await loadText(written(entry(a), entry(`${b}, userPrefix: b`)));
  expect(warnings).toEqual([]);
  const taken = entry('issuer: "https://other.example", userPrefix: id.example');
  expect((await problemsOf(written(entry(a), taken))).join()).toContain(clash);
});

test.each([
  ['issuer: "http://id.example"', 'https://'],
  ['issuer: "https://id.example", jwksUri: "http://id.example/jwks"', 'https://'],
  ['issuer: "https://[2001:db8::1]"', 'set userPrefix'],
  [`issuer: "https://${'x'.repeat(50)}.example.com"`, 'set userPrefix'],
  ['issuer: "https://id.example", userPrefix: "a|b"', 'userPrefix'],
  ['issuer: "https://id.example", algorithms: [HS256]', 'algorithms'],
  ['issuer: "https://id.example", algorithms: [none]', 'algorithms'],
  ['issuer: "https://id.example", algorithms: []', 'algorithms'],
  ['issuer: "https://id.example", tokenType: any', 'tokenType'],
  ['issuer: "https://id.example", scopes: ["a b"]', 'scopes'],
  [`issuer: "https://id.example", scopes: ['a"b']`, 'scopes'],
  ['issuer: "https://id.example", clockToleranceSeconds: 3600', 'clockToleranceSeconds'],
  ['issuer: "https://id.example", roles: { map: { dev: { trust: full } } }', 'trust'],
  ['issuer: "https://id.example", permissions: { "Notes Write": x }', 'permission'],
])('%s is refused', async (keys, said) => {
  const one = keys.includes('jwksUri') ? `{ audience: [a], ${keys} }` : entry(keys);
  expect((await problemsOf(written(one))).join()).toContain(said);
});

test('a role that names an unknown workspace is a warning', async () => {
  const roles = 'roles: { map: { dev: { workspaces: [my-projct] } } }';
  const text = `${written(entry(`issuer: "https://id.example", ${roles}`))}workspaces: { my-project: { path: /w } }\n`;
  const { warnings } = await loadText(text);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('there is no workspace "my-projct"; did you mean "my-project"?');
});

test('on this machine plain HTTP is taken', async () => {
  const keys = 'issuer: "http://localhost:9000", audience: [a], jwksUri: "http://[::1]:9000/jwks"';
  expect((await loadText(written(`{ ${keys} }`))).warnings).toEqual([]);
});
