import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, test } from 'vitest';
import { repository } from '../../structure/source-files.ts';

const guide = await readFile(join(repository, 'docs/how-to/sessions-in-your-own-server.md'), 'utf8');
const reference = await readFile(join(repository, 'docs/reference/library.md'), 'utf8');
const [onStdio, overHttp, ...rest] = [...guide.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code]) => code as string);

const client = () => new Client({ name: 'guide', version: '1' }, { versionNegotiation: { mode: 'auto' } });

async function said(connected: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = await connected.callTool({ name, arguments: args });
  return (content as { text: string }[])[0]?.text ?? '';
}

test('the guide shows two servers, and the reference only code that is type-checked', () => {
  expect(rest).toEqual([]);
  expect(reference.match(/^```(?:js|sh|yaml)/gm)).toBeNull();
});

test('L15: the server of the guide on stdio keeps its list', async () => {
  const connected = client();
  await connected.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: ['--input-type=module', '-e', onStdio as string],
      cwd: repository,
      env: { PATH: process.env.PATH ?? '' },
      stderr: 'ignore',
    }),
  );
  expect(await said(connected, 'add_item', { item: 'flour' })).toBe('flour');
  expect(await said(connected, 'add_item', { item: 'beans' })).toBe('flour, beans');
  await connected.close();
});

test('L2, L13: the server of the guide over HTTP counts for each user, and closes', async () => {
  const server = spawn(process.execPath, ['--input-type=module', '-e', overHttp as string], {
    cwd: repository,
    env: { PATH: process.env.PATH, PORT: '0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines = createInterface({ input: server.stderr });
  const heard: string[] = [];
  lines.on('line', (line) => heard.push(line));
  const [first] = (await once(lines, 'line')) as [string];
  const url = new URL(`http://127.0.0.1:${/\d+$/.exec(first)?.[0]}/mcp`);
  const [ada, bob] = await Promise.all(
    ['of-ada', 'of-bob'].map(async (token) => {
      const connected = client();
      const requestInit = { headers: { Authorization: `Bearer ${token}` } };
      await connected.connect(new StreamableHTTPClientTransport(url, { requestInit }));
      return connected;
    }),
  );
  if (ada === undefined || bob === undefined) throw new Error('not connected');
  expect(await said(ada, 'count')).toBe('1 for ada');
  expect(await said(bob, 'count')).toBe('1 for bob');
  expect(await said(ada, 'count')).toBe('2 for ada');
  expect(await said(ada, 'session_end', { session: 'current' })).toMatch(/"ended":true/);
  expect(await said(ada, 'count')).toBe('1 for ada');
  await Promise.all([ada.close(), bob.close()]);
  // Its last lines may come after its end: "close" is told when they have been read.
  const closed = once(server, 'close');
  server.kill('SIGTERM');
  expect(await closed).toEqual([0, null]);
  expect(heard.filter((line) => /^session=[0-9a-f]{8} of (?:ada|bob): (?:ended|closed)$/.test(line))).toHaveLength(3);
});

test('every option and method is in the reference', async () => {
  const files = ['settings', 'governance', 'declared-workspaces'];
  const texts = await Promise.all(
    files.map((name) => readFile(join(repository, `src/public/server/${name}.ts`), 'utf8')),
  );
  const exported = texts.flatMap((text) => [
    ...text.matchAll(
      /^export (?:interface|type) (?!ServerSettings\b)(?:Given|File|Own|Server|Session|Local|Caller|Resolved|Declared)\w*(?: extends [^{]+)? (?:\{|=)[\s\S]*?\n\n/gm,
    ),
  ]);
  const options = exported.map(([text]) => text).join('\n');
  const names = [...options.matchAll(/^ {2,6}(?:readonly )?(\w+)\??[:(]/gm)].map(([, name]) => name as string);
  expect(names.length).toBeGreaterThan(50);
  const shape = await readFile(join(repository, 'src/public/server/server-sessions.ts'), 'utf8');
  const methods = [.../export interface ServerSessions \{([\s\S]*?)^\}/m.exec(shape)![1]!.matchAll(/^ {2}(\w+)\(/gm)];
  expect(methods.length).toBe(10);
  const ofSdk = new Set(['token', 'clientId', 'scopes', 'expiresAt', 'extra']);
  for (const name of [...names.filter((each) => !ofSdk.has(each)), ...methods.map(([, name]) => name as string)]) {
    expect(reference).toMatch(new RegExp(`\\b${name}\\b`));
  }
});
