import { expect, test } from 'vitest';
import type { LogFields } from '../../../src/observability/log/log.ts';
import {
  createMetadataFields,
  createSafeLog,
  detectPersonalData,
  hideUser,
} from '../../../src/observability/log/safe-log.ts';
import { formatJsonLine, formatTextLine, formatTextLines } from '../../../src/observability/log/stderr-log.ts';

const id = 'd41d8cd98f00b204e9800998ecf8427e';
const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';

function createRecordingLog() {
  const said: { level: string; event: string; fields: LogFields | undefined }[] = [];
  const at = (level: string) => (event: string, fields?: LogFields) => void said.push({ level, event, fields });
  return { said, log: { info: at('info'), warn: at('warn'), debug: at('debug') } };
}

test('L9: a log gets short ids, pseudonyms of users, scrubbed texts and whole trace ids', () => {
  const { said, log } = createRecordingLog();
  createSafeLog(log).warn(`it broke for ambs_${id}_secretsecretsecret`, {
    session: id,
    correlation: uuid,
    user: 'ada@example.com',
    trace: id,
    error: `ENOENT: /data/run/${id}: Authorization: Bearer abcdefgh`,
    pid: 7,
    again: undefined,
  });
  expect(said).toEqual([
    {
      level: 'warn',
      event: 'it broke for [secret]',
      fields: {
        session: 'd41d8cd9',
        correlation: '0f8fad5b',
        user: hideUser('ada@example.com'),
        trace: id,
        error: 'ENOENT: /data/run/d41d8cd9…: Authorization: [secret]',
        pid: 7,
      },
    },
  ]);
  expect(hideUser('ada@example.com')).toMatch(/^u-[0-9a-f]{8}$/);
  expect(hideUser('ada@example.com')).not.toBe(hideUser('bob@example.com'));
});

test.each(['session', 'correlation', 'transport', 'key'])(
  'L9: an id of a %s is shortened to eight characters',
  (field) => {
    const { said, log } = createRecordingLog();
    // No id of Ambit looks like this, so only the name of the field shows what it is.
    createSafeLog(log).info('x', { [field]: 'not-a-hex-id-but-long' });
    expect(said[0]?.fields).toEqual({ [field]: 'not-a-he' });
  },
);

test('L9: an invalid trace id is treated like any text', () => {
  const { said, log } = createRecordingLog();
  createSafeLog(log).info('x', { trace: `password=hunter22 ${id}` });
  expect(said[0]?.fields).toEqual({ trace: 'password=[secret] d41d8cd9…' });
});

test('a log is wrapped once: a second time would hide what the first shows', () => {
  const { said, log } = createRecordingLog();
  const safe = createSafeLog(log);
  expect(createSafeLog(safe)).toBe(safe);
  safe.debug?.('x', { user: 'ada' });
  expect(said[0]?.fields).toEqual({ user: hideUser('ada') });
  expect(createSafeLog({ info() {}, warn() {} })).not.toHaveProperty('debug');
});

test('a text line has fields by name, quotes where needed, and no control characters', () => {
  expect(formatTextLine('context injected', { server: 'notes', workspace: '(none)', ms: 3 })).toBe(
    'context injected: server=notes workspace=(none) ms=3',
  );
  expect(formatTextLine('x', { a: 'two words', b: '', c: 'k=v', d: 'say "hi"' })).toBe(
    'x: a="two words" b="" c="k=v" d="say \\"hi\\""',
  );
  const forged = formatTextLine('x', { name: 'a\nambit: session ended: session=1\u001b[2J\u202e' });
  expect(forged).not.toMatch(/[\u0000-\u001f\u202e]/);
});

test('a field of several lines is scrubbed line by line; it follows below in text, and is an array in JSON', () => {
  const { said, log } = createRecordingLog();
  const stderr = ['password=hunter22', 'a\nambit: forged\u001b[2J'];
  createSafeLog(log).warn('server lost', { server: 'notes', stderr, code: 2 });
  const fields = said[0]?.fields;
  expect(formatTextLines('server lost', fields)).toBe(
    'ambit: server lost: server=notes code=2\nambit:   stderr | password=[secret]\nambit:   stderr | a\\u000aambit: forged\\u001b[2J',
  );
  expect(JSON.parse(formatJsonLine(new Date(0), 'warn', 'server lost', fields))).toMatchObject({
    stderr: ['password=[secret]', stderr[1]],
    code: 2,
  });
});

test('a JSON line is one object, and no field replaces time, level or event', () => {
  const time = new Date(0);
  const line = formatJsonLine(time, 'info', 'listening', {
    level: 'debug',
    event: 'other',
    time: 'x',
    url: 'a\n\u2028b',
    n: 1,
  });
  expect(line).not.toMatch(/[\n\u2028]/);
  expect(JSON.parse(line)).toEqual({
    time: time.toISOString(),
    level: 'info',
    event: 'listening',
    url: 'a\n\u2028b',
    n: 1,
  });
  expect(line.startsWith('{"time":')).toBe(true);
});

test('L9: metadata is shown without secrets and personal data', () => {
  const fields = createMetadataFields({
    ticket: 'GARDEN-12',
    owner: 'Ada <ada.lovelace@example.co.uk>',
    phone: '+44 20 7946 0958',
    api_key: 'anything at all',
    note: 'Authorization: Bearer abcdefgh',
    nested: { to: ['bob@example.com'] },
    'eve@example.com': 'in the key',
    count: 3,
  });
  expect(fields).toEqual({
    'metadata.ticket': 'GARDEN-12',
    'metadata.owner': '[personal: mail address]',
    'metadata.phone': '[personal: phone number]',
    'metadata.api_key': '[secret]',
    'metadata.note': 'Authorization: [secret]',
    'metadata.nested': '[personal: mail address]',
    'metadata.[personal: mail address]': 'in the key',
    'metadata.count': '3',
  });
});

test.each([
  ...[
    'pass',
    'dbPwd',
    'client_secret',
    'tokenOfAda',
    'apiKey',
    'private-key',
    'Authorization',
    'credentials',
    'COOKIE',
  ],
])('L9: metadata with the name %s is not shown, whatever its value', (name) => {
  expect(createMetadataFields({ [name]: 'plain' })).toEqual({ [`metadata.${name}`]: '[secret]' });
  expect(createMetadataFields({ nothing: 'plain' })).toEqual({ 'metadata.nothing': 'plain' });
});

test('L9: a lot of metadata makes a short line', () => {
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, 'x'.repeat(1000)]));
  const fields = createMetadataFields(many);
  expect(Object.keys(fields)).toHaveLength(33);
  expect(fields['metadata.more']).toBe(68);
  expect(JSON.stringify(fields).length).toBeLessThan(6000);
  // The part that is cut off is checked as well: the address lies beyond the cut.
  expect(createMetadataFields({ a: `${'x'.repeat(120)} ada@example.com` })).toEqual({
    'metadata.a': '[personal: mail address]',
  });
});

test.each([
  ['ada@example.com', 'mail address'],
  ['mailto:ada+lists@mail.example.org?x', 'mail address'],
  ['josé@exämple.com', 'mail address'],
  ['+1 (555) 010-9999', 'phone number'],
  ['+49.30.1234567', 'phone number'],
  ['030/1234567', 'phone number'],
  ['555-010-9999', 'phone number'],
  ['2026-11-15', undefined],
  ['1731660000', undefined],
  ['v1.2.3', undefined],
  ['10.0.0.1', undefined],
  ['ticket 12345678', undefined],
  ['user@host', undefined],
])('L9: %s is a %s', (text, kind) => {
  expect(detectPersonalData(text)).toBe(kind);
});
