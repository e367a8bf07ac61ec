import { expect, test } from 'vitest';
import { hideArguments, hideUrlValues, renderValue } from '../../../src/upstreams/pins/show-server.ts';

const random = 'q7Zp2LmXv9Tb4RkWc8Yd';

test.each([
  ['LOG_LEVEL', 'debug', 'debug'],
  ['SOME_TOOL', '/no/such/evil.js', '/no/such/evil.js'],
  ['PORT', '8080', '8080'],
  ['SERVICE_URL', 'https://evil.example/x', 'https://evil.example/x'],
  ['SERVICE_URL', `https://me:${random}@h/x`, 'https://…@h/x'],
  ['SERVICE_URL', `https://h/x?token=${random}&a=1`, 'https://h/x?token=…&a=1'],
  // A name alone hides no path, option or address.
  ['API_KEY', import.meta.dirname, import.meta.dirname],
  ['API_KEY', '../evil.js', '../evil.js'],
  ['API_KEY', '--require /x.js', '--require /x.js'],
  ['AUTH_TOKEN', 'tcp://evil:2375', 'tcp://evil:2375'],
])('S3: an approval shows %s=%s', (name, value, expected) => {
  expect(renderValue(name, value)).toBe(expected);
});

test.each([
  ['API_KEY', 'short'],
  ['OPENAI_KEY', 'short'],
  ['DB_PASS', 'short'],
  ['GITHUB_PAT', 'short'],
  ['AWS_SECRET_ACCESS_KEY', `/${random}+${random}`],
  ['ANYTHING', `sk-${random}`],
  ['ANYTHING', random],
])('an approval shows no credential: %s=%s', (name, value) => {
  expect(renderValue(name, value)).toBe('…');
});

test('the path of an address keeps names and hides what works like a password', () => {
  const commit = '9f86d081884c7d659a2feaa0c55ad0159f86d081';
  const secrets = [random, '9f86d081884c7d659a2feaa0c55ad015', '550e8400-e29b-41d4-a716-446655440000'];
  for (const secret of secrets) {
    const address = `https://h:1/api/${secret}/my-server-2024/mcp`;
    expect(hideUrlValues(address)).toBe('https://h:1/api/…/my-server-2024/mcp');
    expect(hideArguments([`--url=${address}`, address])).toEqual([
      '--url=https://h:1/api/…/my-server-2024/mcp',
      'https://h:1/api/…/my-server-2024/mcp',
    ]);
  }
  // Whoever approves a server must see which commit runs.
  expect(hideArguments([`https://h/a.tar.gz/${commit}`])).toEqual([`https://h/a.tar.gz/${commit}`]);
  expect(hideUrlValues(`https://h/${commit}`)).toBe('https://h/…');
});
