import { expect, test } from 'vitest';
import { renderValue } from '../../../src/upstreams/pins/show-server.ts';

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
