import { expect, test } from 'vitest';
import { createMetadataFields, detectPersonalData } from '../../../src/observability/log/session-metadata.ts';

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
