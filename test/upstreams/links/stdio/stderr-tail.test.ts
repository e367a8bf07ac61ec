import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import {
  createOutputScrubber,
  findTellingLine,
  keepStderrTail,
} from '../../../../src/upstreams/links/stdio/stderr-tail.ts';

/** What programs write before they end, and the line of it that says why. */
const outputs: Record<string, [output: string, line: string | undefined]> = {
  Python: [
    'Traceback (most recent call last):\n  File "/srv/notes.py", line 1, in <module>\n    import mcp\nModuleNotFoundError: No module named \'mcp\'\n',
    "ModuleNotFoundError: No module named 'mcp'",
  ],
  'Python, chained': [
    'KeyError: \'A\'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "x.py", line 4, in <module>\npydantic_core._pydantic_core.ValidationError: 1 validation error\n',
    'pydantic_core._pydantic_core.ValidationError: 1 validation error',
  ],
  Node: [
    "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'express'\nRequire stack:\n- /srv/x.js\n    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/srv/x.js' ]\n}\n\nNode.js v22.11.0\n",
    "Error: Cannot find module 'express'",
  ],
  'Node, with a code': [
    'node:internal/errors:540\n      throw error;\n      ^\n\nTypeError [ERR_INVALID_URL]: Invalid URL\n    at new URL (node:internal/url:816:29)\n\nNode.js v22.11.0\n',
    'TypeError [ERR_INVALID_URL]: Invalid URL',
  ],
  'Node, with a cause': [
    'Error: cannot connect\n    at main (file:///srv/x.js:1:7) {\n  [cause]: Error: connect ECONNREFUSED\n      at x:1\n}\n\nNode.js v22.11.0\n',
    'Error: cannot connect',
  ],
  'a sentence': ['Error: BRAVE_API_KEY is required\n', 'Error: BRAVE_API_KEY is required'],
  'a list below a title': [
    'Invalid environment variables:\n  API_KEY: Required\n',
    'Invalid environment variables: API_KEY: Required',
  ],
  zod: [
    'ZodError: [\n  {\n    "path": ["API_KEY"],\n    "message": "Required"\n  }\n]\n    at x (y:1:1)\n\nNode.js v22.11.0\n',
    'ZodError: [ { "path": ["API_KEY"], "message": "Required" } ]',
  ],
  npm: [
    "npm error code E404\nnpm error 404 Not Found - GET https://registry.test/nosuch - Not found\nnpm error 404\nnpm error 404  'nosuch@*' is not in this registry.\nnpm error A complete log of this run can be found in: /home/ada/.npm/_logs/x.log\n",
    'npm error 404 Not Found - GET https://registry.test/nosuch - Not found',
  ],
  'a server below npm': [
    'npm warn deprecated glob@7\nusage: notes FOLDER\nnpm notice New version\n',
    'usage: notes FOLDER',
  ],
  Go: [
    'panic: no database\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:4 +0x2c\nexit status 2\n',
    'panic: no database',
  ],
  Rust: [
    "thread 'main' panicked at src/main.rs:2:5: no database\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    "thread 'main' panicked at src/main.rs:2:5: no database",
  ],
  Java: [
    'Exception in thread "main" java.lang.IllegalStateException: no database\n\tat Main.main(Main.java:3)\n',
    'Exception in thread "main" java.lang.IllegalStateException: no database',
  ],
  shell: ['./x.sh: line 3: uvx: command not found\n', './x.sh: line 3: uvx: command not found'],
  'a log': ['[12:00] starting\n[12:01] giving up\n', '[12:01] giving up'],
  nothing: ['\n  \n', undefined],
};

test.each(Object.entries(outputs))('the telling line of %s', (_, [output, line]) => {
  const lines = output.split('\n').filter((each) => each.trim() !== '');
  expect(findTellingLine(lines)).toBe(line);
});

function tailOf(output: string | Buffer, env: Record<string, string> = {}, args: readonly string[] = []) {
  const stderr = new PassThrough();
  const tail = keepStderrTail(stderr, { env, args });
  stderr.emit('data', Buffer.from(output));
  return tail;
}

test('only the last lines are kept, and each is short', () => {
  const many = tailOf(Array.from({ length: 100 }, (_, at) => `line ${at}\n`).join(''));
  expect(many.lines()).toEqual(Array.from({ length: 20 }, (_, at) => `line ${80 + at}`));
  const long = tailOf(`first\n${'é'.repeat(1000)}\nlast\n`).lines();
  expect(long.map((line) => line.length)).toEqual([5, 500, 4]);
  expect(tailOf(`Error: ${'x y '.repeat(300)}`).quote()).toHaveLength(200);
});

test('S7: a flood costs what its last bytes cost, and a line that lost its start is dropped', () => {
  const stderr = new PassThrough();
  const tail = keepStderrTail(stderr, { env: {}, args: [] });
  for (let at = 0; at < 100; at++) stderr.emit('data', Buffer.alloc(65_536, 'secret-without-an-end '));
  expect(tail.lines()).toEqual([]);
  stderr.emit('data', Buffer.from('\nError: too much\n'));
  expect(tail.lines()).toEqual(['Error: too much']);
});

test('L9: secrets are in neither form, and callers see less than the operator', () => {
  const env = {
    API_TOKEN: 'plain words, but secret',
    PIN_KEY: 'k4y!',
    REGION: 'eu-central-7-private',
    MODE: 'production',
    SIGNING: 'first secret line\nsecond secret line',
    SIGNING_KEY: 'first secret line\nsecond secret line',
    AMBIT_USER_ID: 'ada-lovelace',
    AMBIT_SESSION_ID: 'd41d8cd98f00b204e9800998ecf8427e',
  };
  const args = ['--password', 'opensesame', '--api-key=abcdefgh', '--port', '80808080'];
  const said = [
    'token plain words, but secret; Bearer zyxwvutsrq; opensesame; abcdefgh;',
    'second secret line; ada-lovelace bob@example.com;',
    '{"_meta":{"ambit/context":{"userId":"x","permissions":["garden:dig"]}}}',
    'Error: k4y! eu-central-7-private production d41d8cd98f00b204e9800998ecf8427e 80808080 /home/ada/notes/x.js:3 file:///home/ada/y.js https://h.test/a/b?key=v',
  ].join('\n');
  const tail = tailOf(said, env, args);
  expect(tail.lines()).toEqual([
    'token [secret]; Bearer [secret]; [secret]; [secret];',
    '[secret]; [user] [personal: mail address];',
    '{"_meta":{"ambit/context":{…}}}',
    'Error: k4y! eu-central-7-private production d41d8cd98f00b204e9800998ecf8427e 80808080 /home/ada/notes/x.js:3 file:///home/ada/y.js https://h.test/a/b?key=v',
  ]);
  expect(tail.quote()).toBe('Error: [secret] [secret] production [secret] 80808080 …/x.js:3 …/y.js https://h.test/a/b');
});

test('L9: colours hide no secret, not even from the journal', () => {
  const said = '\u001b[33mambs_abc_0123456789abcdef\u001b[39m hunt\u001b[0mer-two \\u001b[1mambk_abc_0123456789abcdef';
  const settings = { env: { PASSWORD: 'hunter-two' }, args: [] };
  const tail = tailOf(said, settings.env);
  for (const text of [tail.lines()[0], tail.quote(), createOutputScrubber(settings)(said)])
    expect(text).toBe('[secret] [secret] [secret]');
});

test('nothing moves a cursor, forges a line or hides itself', () => {
  expect(tailOf('\u001b[31mError:\u001b[0m a\tb\u0007\u202e\u2028c\rd\r\ne\n').lines()).toEqual([
    'Error: a    b\\u0007\\u202e\\u2028c',
    'd',
    'e',
  ]);
  expect(tailOf('a\u00ad\u2060\u{e0041}\u{e0100}b').lines()).toEqual(['a\\u00ad\\u2060\\u{e0041}\\u{e0100}b']);
});
