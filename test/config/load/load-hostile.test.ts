import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { listKeysAt } from '../../../src/config/schema/json-schema.ts';
import { isAmbitError } from '../../../src/errors.ts';
import { counts } from '../../proof.ts';
import { contractExample } from '../schema/contract-example.ts';
import { loadText, problemsOf } from './load-text.ts';

describe('keys that reach for a prototype', () => {
  test.each([
    ['version: 1\n__proto__: { polluted: true }\n', '2:1 __proto__: this key is not allowed'],
    ['version: 1\nservers:\n  __proto__: { command: x }\n', '3:3 servers.__proto__: this key is not allowed'],
    [
      'version: 1\nservers:\n  a: { command: x, env: { __proto__: y } }\n',
      '3:27 servers.a.env.__proto__: this key is not allowed',
    ],
    ['{"version": 1, "listen": {"__proto__": {"port": 1}}}', '1:27 listen.__proto__: this key is not allowed'],
    ['version: 1\nconstructor: { prototype: { polluted: true } }\n', '2:1 constructor: unknown key'],
    ['version: 1\nlisten: { toString: x }\n', '2:11 listen.toString: unknown key'],
  ])('%j', async (text, problem) => {
    expect(await problemsOf(text)).toContain(`ambit.yaml:${problem}`);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('are plain names where names are free', async () => {
    const { config } = await loadText(
      'version: 1\nservers:\n  constructor: { command: x, env: { constructor: a, toString: b } }\n',
    );
    expect(Object.keys(config.servers)).toEqual(['constructor']);
    expect(config.servers['constructor']).toMatchObject({ env: { constructor: 'a', toString: 'b' } });
  });
});

describe('files made to exhaust', () => {
  test('a billion laughs', async () => {
    const levels = Array.from({ length: 9 }, (_, level) => {
      const inner = level === 0 ? 'lol' : `*l${level - 1}`;
      return `  - &l${level} [${Array(9).fill(inner).join(', ')}]`;
    });
    const [problem, ...others] = await problemsOf(`version: 1\ninclude:\n${levels.join('\n')}\n`);
    expect(problem).toMatch(
      /^ambit\.yaml:\d+:\d+ include\S*: the aliases of this file expand to more than 10000 values$/,
    );
    expect(others).toEqual([]);
  });

  test('one large map repeated by many aliases', async () => {
    const env = Array.from({ length: 300 }, (_, index) => `A${index}: b`).join(', ');
    const users = Array.from({ length: 300 }, (_, index) => `  s${index}: { command: x, env: *e }`).join('\n');
    const problems = await problemsOf(`version: 1\nservers:\n  first: { command: x, env: &e { ${env} } }\n${users}\n`);
    expect(problems[0]).toContain('the aliases of this file expand to more than');
  });

  test.each([
    ['in itself', 'version: 1\nservers: &a { b: *a }\n'],
    ['in a list', 'version: 1\ninclude: &a [*a]\n'],
  ])('an alias that stands %s', async (_, text) => {
    expect((await problemsOf(text))[0]).toContain('this alias has no anchor before it, or is inside its own anchor');
  });

  test.each([
    ['brackets', '['.repeat(500_000)],
    ['closed brackets', '['.repeat(5000) + ']'.repeat(5000)],
    ['braces', '{a: '.repeat(100_000)],
    ['dashes', `\n${'- '.repeat(300_000)}`],
    ['questions', `\n${'? '.repeat(300_000)}`],
    ['indentation', `\n${Array.from({ length: 200 }, (_, depth) => `${' '.repeat(depth + 1)}a:`).join('\n')}`],
  ])('nesting by %s', async (_, nested) => {
    const problems = await problemsOf(`version: 1\ninclude: ${nested}`);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('nested more than 64 levels deep');
  });

  test('thousands of equal keys', async () => {
    const problems = await problemsOf(`version: 1\nservers: {${'a,'.repeat(counts(4000, 100_000))}}`);
    expect(problems.length).toBeLessThanOrEqual(1001);
    expect(problems.at(-1)).toMatch(/^ambit\.yaml: and \d+ more problems$/);
  });

  test('thousands of servers, right and wrong', async () => {
    const count = counts(1100, 10_000);
    const servers = Array.from({ length: count }, (_, index) => `  s${index}: { command: node, args: [a.js] }`);
    const text = `version: 1\nservers:\n${servers.join('\n')}\n`;
    const { config } = await loadText(text);
    expect(Object.keys(config.servers)).toHaveLength(count);
    const problems = await problemsOf(text.replaceAll('args', 'arg'));
    expect(problems[999]).toBe('ambit.yaml:1002:26 servers.s999.arg: unknown key; did you mean "args"?');
    expect(problems[1000]).toBe(`ambit.yaml: and ${count - 1000} more problems`);
  });

  test('a text beyond 1 MiB, counted in bytes', async () => {
    expect(await problemsOf(`version: 1 # ${'é'.repeat(600_000)}`)).toEqual([
      '/srv/ambit/ambit.yaml: it is larger than 1 MiB',
    ]);
  });
});

test.each([
  ['sessions', 'ttlSeconds', '99999999999999999999', 'expected at most 31536000, found 100000000000000000000'],
  ['sessions', 'maxSessions', '1e999', 'expected a number, found Infinity'],
  ['sessions', 'maxPerUser', '-1', 'expected at least 1, found -1'],
  ['sessions', 'metadataBytes', '.nan', 'expected a number, found NaN'],
  ['processes', 'idleSeconds', '2147483648', 'expected at most 2147483, found 2147483648'],
  ['processes', 'startSeconds', '0', 'expected more than 0, found 0'],
  ['processes', 'maxPerSession', '0', 'expected at least 1, found 0'],
  ['processes', 'max', '1.5', 'expected a whole number, found 1.5'],
  ['processes', 'maxSeconds', '-.inf', 'expected a number, found -Infinity'],
  ['limits', 'messageBytes', '0x7fffffffffffffff', 'expected at most 268435456, found 9223372036854776000'],
  ['limits', 'bodyBytes', '1e-320', 'expected a whole number, found 1e-320'],
  ['limits', 'pendingPerUpstream', '"1024"', 'expected a number, found "1024"'],
])('%s.%s: %s is out of bounds', async (section, key, value, problem) => {
  const problems = await problemsOf(`version: 1\n${section}: { ${key}: ${value} }\n`);
  expect(problems).toEqual([expect.stringMatching(/^ambit\.yaml:2:\d+ /)]);
  expect(problems[0]).toContain(`${section}.${key}: ${problem}`);
});

describe('messages', () => {
  test('show control characters instead of sending them', async () => {
    const text = `version: 1\n"a\\e[31m\\u202E\\n": 1\nlisten: { host: "x\\e]0;pwned\\a" }\nservers: { "b\\nambit.yaml:9:9 forged": {} }\n`;
    const message = (await problemsOf(text, '/srv/am\u001bbit/am\u001b\nbit.yaml')).join('\n');
    expect(message).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    expect(message.split('\n').filter((line) => !line.startsWith('am\\u001b\\u000abit.yaml:'))).toEqual([]);
    expect(message).toContain('"a\\u001b[31m\\u202e\\u000a": unknown key');
  });

  test('shorten what is long', async () => {
    const long = 'x'.repeat(1000);
    const lines = await problemsOf(`version: 1\n${long}: 1\nauth: { onInvalidKey: ${long} }\n`);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(250);
  });

  const secret = 'hunter2-correct-horse';
  test.each([
    ['env value of a wrong type', `servers: { a: { command: x, env: { T: [${secret}] } } }`],
    ['env that is text', `servers: { a: { command: x, env: "T=${secret}" } }`],
    ['env that is a list', `servers: { a: { command: x, env: ["T=${secret}"] } }`],
    ['env name with the value in it', `servers: { a: { command: x, env: { "T=${secret}": 5 } } }`],
    [
      'env name with the value in it, twice',
      `servers: { a: { command: x, env: { "T=${secret}": x, "T=${secret}": y } } }`,
    ],
    ['env value with a NUL', `servers: { a: { command: x, env: { T: "${secret}\\0" } } }`],
    ['header with a line end', `servers: { a: { url: "http://h/", headers: { A: "${secret}\\n" } } }`],
    ['header name with the value in it', `servers: { a: { url: "http://h/", headers: { "A: ${secret}": x } } }`],
    ['header of a collector', `telemetry: { headers: { A: "${secret}\\n" } }`],
    ['header name of a collector with the value in it', `telemetry: { headers: { "A: ${secret}": x } }`],
    ['address of a collector', `telemetry: { otlpUrl: "ftp://${secret}" }`],
    ['headers that are text', `servers: { a: { url: "http://h/", headers: "A: ${secret}" } }`],
    ['argument with a NUL', `servers: { a: { command: x, args: ["--token=${secret}\\0"] } }`],
    ['arguments that are text', `servers: { a: { command: x, args: "--token ${secret}" } }`],
    ['url with credentials', `servers: { a: { url: "https://u:${secret}@h/" } }`],
    ['url of another scheme', `servers: { a: { url: "wss://h/?key=${secret}" } }`],
    ['server that is a url', `servers: { a: "https://u:${secret}@h/" }`],
    ['servers that are text', `servers: "https://u:${secret}@h/"`],
    ['workspace env', `workspaces: { w: { path: /w, env: { a: { T: { x: ${secret} } } } } }`],
    ['workspace env that is text', `workspaces: { w: { path: /w, env: { a: ${secret} } } }`],
    ['workspace env value with a NUL', `workspaces: { w: { path: /w, env: { a: { T: "${secret}\\0" } } } }`],
    ['command with a line end', `servers: { a: { command: "x --token=${secret}\\n" } }`],
    ['address of the store', `store: { kind: redis, redis: { url: "http://:${secret}@h" } }`],
    ['address of the store instead of its kind', `store: { kind: "redis://u:${secret}@h" }`],
    ['unknown key', `token: ${secret}`],
    ['syntax error', `servers:\n  a:\n    env: T: ${secret}\n`],
    ['unclosed quote', `servers: { a: { env: { T: "${secret}\n`],
    ['text in the wrong place', `servers:\n  a:\n    ${secret}\n    command: x\n`],
    ['unknown alias', `servers: { a: { command: x, env: { T: *${secret} } } }`],
    ['unknown tag', `servers: { a: { command: x, env: { T: !${secret} x } } }`],
    ['block scalar header', `servers:\n  a:\n    env:\n      T: |${secret}\n`],
  ])('do not repeat the secret in: %s', async (_, text) => {
    expect((await problemsOf(`version: 1\n${text}\n`)).join('\n')).not.toContain(secret);
  });
});

test('whatever the text, the answer is a configuration or a refusal with a line for each problem', async () => {
  const pieces = fc.constantFrom(
    ...[
      'version: 1\n',
      'servers:\n',
      '  a: ',
      '{',
      '}',
      '[',
      ']',
      '&a ',
      '*a',
      '- ',
      '? ',
      ': ',
      '"',
      "'",
      '|\n',
      '!!set ',
    ],
    ...[
      '__proto__',
      'command: x',
      'trust',
      '\n',
      '\t',
      '---\n',
      '%YAML 1.1\n',
      '#',
      '<<: ',
      '~',
      '\u0000',
      '\ud800',
      'off',
    ],
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(pieces, { maxLength: 40 }).map((all) => all.join('')),
  );
  await fc.assert(
    fc.asyncProperty(text, async (found) => {
      const error = await loadText(found).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      if (error === undefined) return;
      if (!isAmbitError(error)) throw error;
      expect(error.message).toMatch(/^(?:ambit\.yaml:\d+:\d+ .+\n?)+$/);
    }),
    { numRuns: counts(80, 10_000) },
  );
});

describe('an unknown key is refused in every map that has known ones', () => {
  const example: unknown = parse(contractExample);
  const maps: (string | number)[][] = [];
  const walk = (value: unknown, path: (string | number)[]): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!Array.isArray(value) && listKeysAt(path).length > 0) maps.push(path);
    for (const [key, inner] of Object.entries(value)) walk(inner, [...path, Array.isArray(value) ? Number(key) : key]);
  };
  walk(example, []);

  test('of which there are many', () => {
    expect(maps.length).toBeGreaterThan(20);
  });
  test.each(maps.map((path) => [path]))('%j', async (path) => {
    const changed = structuredClone(example);
    let map = changed as Record<string | number, unknown>;
    for (const segment of path) map = map[segment] as Record<string | number, unknown>;
    map['zzz'] = 1;
    const problems = await problemsOf(stringify(changed));
    expect(problems.filter((line) => line.endsWith('zzz: unknown key'))).toHaveLength(1);
  });
});
