import { expect, test } from 'vitest';
import { type ConsoleGrant, createConsoles } from '../../src/identity/consoles.ts';
import { parseToken } from '../../src/identity/token.ts';
import type { JournalEntry } from '../../src/observability/journal/journal.ts';

const admin: ConsoleGrant = { role: 'admin', by: 'admin-token' };
const hour = 3_600_000;

function openRegistry() {
  const time = { wall: 1_000_000, elapsed: 0 };
  const entries: JournalEntry[] = [];
  const journal = { record: (entry: JournalEntry) => void entries.push(entry) };
  const consoles = createConsoles(journal, { now: () => time.wall, elapsed: () => time.elapsed });
  const isValid = (token: string) => consoles.verify(parseToken(token), undefined) !== undefined;
  const pass = (ms: number) => {
    time.wall += ms;
    time.elapsed += ms;
  };
  return { consoles, entries, time, pass, isValid };
}

test('a code opens one console, once, within a minute', () => {
  const { consoles, pass } = openRegistry();
  const { code } = consoles.createCode({ role: 'viewer', by: 'control-socket' });
  expect(code).toMatch(/^ambo_[0-9a-f]{32}_[0-9A-Za-z]{49}$/);
  expect(consoles.redeemCode(code, '127.0.0.1')).toMatchObject({ role: 'viewer', by: 'control-socket' });
  expect(consoles.redeemCode(code, '127.0.0.1')).toBeUndefined();
  const { code: late } = consoles.createCode(admin);
  pass(60_000);
  expect(consoles.redeemCode(late, undefined)).toBeUndefined();
});

test('a guess opens nothing and does not use the code up', () => {
  const { consoles } = openRegistry();
  const { code } = consoles.createCode(admin);
  const other = consoles.createCode(admin).code;
  const mixed = code.slice(0, 38) + other.slice(38);
  const guesses = ['', 'x', code.slice(0, -1), `${code}0`, code.toLowerCase(), mixed, code.replace('ambo', 'ambc')];
  for (const guess of guesses) expect(consoles.redeemCode(guess, undefined), guess).toBeUndefined();
  expect(consoles.verify(parseToken(code), undefined)).toBeUndefined();
  const opened = consoles.redeemCode(code, undefined);
  expect(consoles.redeemCode(opened?.token ?? '', undefined)).toBeUndefined();
});

test('a token ends after eight hours, whatever is done to one of the clocks', () => {
  for (const clock of ['wall', 'elapsed'] as const) {
    const { consoles, time, pass, isValid } = openRegistry();
    const { token } = consoles.open(admin, undefined);
    pass(8 * hour - 1);
    expect(isValid(token)).toBe(true);
    time[clock] -= 5 * hour;
    pass(1);
    expect(isValid(token)).toBe(false);
    expect(consoles.list()).toEqual([]);
  }
});

test('no sign-in outlives the credential that made it', () => {
  const { consoles, time, pass, isValid } = openRegistry();
  const until = time.wall + 1000;
  const { token, expiresAt } = consoles.open({ ...admin, until }, undefined);
  const { code } = consoles.createCode({ ...admin, until });
  expect(expiresAt).toBe(until);
  pass(1000);
  expect(isValid(token)).toBe(false);
  expect(consoles.redeemCode(code, undefined)).toBeUndefined();
});

test('with a console end its streams, its codes, and the consoles that it made', () => {
  const { consoles, entries, isValid } = openRegistry();
  const first = consoles.open(admin, undefined);
  const made = consoles.redeemCode(consoles.createCode({ ...admin, parentId: first.id }).code, undefined);
  const { code } = consoles.createCode({ ...admin, parentId: made?.id });
  const ended: string[] = [];
  consoles.onEnd(first.id, () => ended.push('first'));
  consoles.onEnd(made?.id ?? '', () => ended.push('made'));
  expect(consoles.revoke(first.id.slice(0, 3), 'x')).toBeUndefined();
  expect(consoles.revoke(first.id.slice(0, 8), 'admin-token')).toMatchObject({ id: first.id });
  expect(ended).toEqual(['first', 'made']);
  expect(isValid(first.token) || isValid(made?.token ?? '')).toBe(false);
  expect(consoles.redeemCode(code, undefined)).toBeUndefined();
  expect(entries.map(({ event }) => event)).toEqual([
    ...['console-opened', 'console-link-made', 'console-opened', 'console-link-made'],
    ...['console-revoked', 'console-revoked'],
  ]);
  expect(JSON.stringify(entries)).not.toMatch(/amb[co]_/);
});

test('the number of codes and consoles is limited, and nobody displaces others by signing in often', () => {
  const { consoles, pass, isValid } = openRegistry();
  const { code } = consoles.createCode(admin);
  for (let n = 0; n < 64; n++) consoles.createCode(admin);
  expect(consoles.redeemCode(code, undefined)).toBeUndefined();
  const { token } = consoles.open(admin, undefined);
  const pushy = Array.from({ length: 300 }, () => {
    pass(1);
    return consoles.open({ role: 'viewer', by: 'idp|eve' }, undefined).token;
  });
  expect(consoles.list()).toHaveLength(256);
  expect(isValid(token)).toBe(true);
  expect(pushy.map(isValid).indexOf(true)).toBe(300 - 255);
});
