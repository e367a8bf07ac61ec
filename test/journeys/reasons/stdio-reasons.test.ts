import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { callModern, modernHeaders, modernRequest, openClient, post } from '../json-mcp-client.ts';
import { type ObservedGateway, startObservedGateway } from '../observed/start-observed-gateway.ts';
import { patience } from '../raw-mcp-client.ts';
import { repository } from '../start-ambit.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-reasons-'));
const node = process.execPath;
const passphrase = 'correct horse battery';
const write = (name: string, text: string, mode = 0o755) => {
  writeFileSync(join(folder, name), text);
  chmodSync(join(folder, name), mode);
  return join(folder, name);
};
/** A server that cannot be started or ends at once: the settings, the words to callers, and the words in the log. */
const failing: Record<string, [server: Record<string, unknown>, told: string, logged: string]> = {
  'no-module': [
    { command: node, args: [write('imports.mjs', 'console.error("starting");\nimport "no-such-package";\n')] },
    `ended with code 1 before it answered. It wrote to stderr: "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'no-such-package' imported from …/imports.mjs".`,
    'Node.js v',
  ],
  'no-key': [
    {
      command: node,
      args: [
        write(
          'key.mjs',
          'console.error("\\x1b[31mError: \\"%s\\" is no key\\u2028", process.env.PASS);process.exit(2)',
        ),
      ],
      env: { PASS: passphrase },
    },
    `ended with code 2 before it answered. It wrote to stderr: "Error: '[secret]' is no key\\u2028".`,
    'code 2 before it answered." stderr="Error: \\"[secret]\\" is no key\\\\u2028"',
  ],
  shared: [
    {
      command: node,
      args: [write('shared.mjs', 'console.error("Error: of others");process.exit(2)')],
      scope: 'shared',
      contextAware: true,
    },
    'ended with code 2 before it answered. Try again',
    'stderr="Error: of others"',
  ],
  silent: [{ command: node, args: ['-e', 'process.exit(0)'] }, 'ended with code 0 before it answered. Try', 'code 0'],
  killed: [{ command: node, args: ['-e', 'process.kill(process.pid)'] }, 'ended by SIGTERM before', 'SIGTERM'],
  missing: [
    { command: 'no-such-command' },
    'could not be started. The command "no-such-command" was not found on the PATH. Install it',
    'cause="Error: spawn no-such-command ENOENT"',
  ],
  'no-runner': [
    { command: 'uvx', args: ['mcp-server-time'], env: { PATH: folder } },
    'The package "mcp-server-time" could not be downloaded: "uv" was not found on the PATH. Install uv, which includes uvx.',
    'was not found on the PATH',
  ],
  'no-file': [{ command: join(folder, 'nothing') }, 'The command "nothing" does not exist. Correct', 'nothing ENOENT'],
  'not-executable': [
    { command: write('plain.py', '#!/usr/bin/env python3\n', 0o644) },
    'The command "plain.py" is not executable. Make it executable (chmod +x)',
    'EACCES',
  ],
  folder: [{ command: join(folder, 'a-folder') }, 'The command "a-folder" is a folder.', 'EACCES'],
  interpreter: [
    { command: write('old.py', '#!/opt/no-such/python2 -u\n') },
    'The command "old.py" needs the interpreter "python2", which does not exist.',
    'ENOENT',
  ],
  windows: [
    { command: write('dos.sh', '#!/bin/sh\r\nexit 0\r\n') },
    'needs the interpreter "sh", which does not exist. Its first line ends with a carriage return',
    'ENOENT',
  ],
};

const reloaded = join(repository, 'test/fixtures/reloaded/server.js');
let on: ObservedGateway;
beforeAll(async () => {
  mkdirSync(join(folder, 'a-folder'));
  on = await startObservedGateway({
    processes: { idleSeconds: 1 },
    workspaces: { garden: { path: join(folder, 'a-folder') } },
    servers: {
      ...Object.fromEntries(Object.entries(failing).map(([name, [server]]) => [name, server])),
      works: { command: node, args: [reloaded] },
      prints: {
        command: node,
        args: ['-e', 'console.log("ready", process.env.PASS);console.log("more");process.exitCode=2'],
        env: { PASS: passphrase },
        era: 'handshake',
      },
      damages: { command: node, args: ['-e', 'console.log(`{"data":`);process.exitCode=2'], era: 'handshake' },
      // It answers one call and leaves by itself, as some do that nobody uses.
      leaves: { command: node, args: [write('leaves.mjs', leavingServer())], era: 'handshake' },
    },
  });
});
afterAll(async () => {
  await on.closed();
  rmSync(folder, { recursive: true, force: true });
});

function leavingServer(): string {
  return `process.stdin.on('data', (data) => {
    for (const line of data.toString().trim().split('\\n')) {
      const { id, method, params } = JSON.parse(line);
      const say = (result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      if (method === 'initialize') say({ protocolVersion: params.protocolVersion, capabilities: {}, serverInfo: { name: 'x', version: '1' } });
      if (method === 'tools/call') say({ content: [{ type: 'text', text: 'bye' }] });
      if (method === 'tools/call') setTimeout(() => process.exit(params.arguments.code), 20);
    }
  });`;
}

const to = (server: string) => `${on.url}/mcp/${server}`;
const linesOf = (server: string, event: string) =>
  on.lines.flatMap(({ line }) => (line.startsWith(`${event}: server=${server} `) ? [line] : []));

test.each(Object.entries(failing))('the reason why a server does not start: %s', async (name, [, told, logged]) => {
  const { token } = await on.gateway.createSession({ userId: 'ada' });
  const answer = await callModern(to(name), token, 'mark');
  const { result } = answer.messages.at(-1) ?? {};
  expect(result?.isError).toBe(true);
  expect(result?.content?.[0]?.text).toMatch(new RegExp(`^UPSTREAM_FAILED: The (?:server "${name}"|package) `));
  const unsent = ' The call was not sent.';
  expect(result?.content?.[0]?.text).toContain(unsent);
  expect(result?.content?.[0]?.text?.replace(unsent, '')).toContain(told);
  // Callers see neither secrets nor folders of this machine.
  expect(answer.text).not.toContain(passphrase);
  expect(answer.text).not.toContain(folder);
  await expect(openClient(to(name), token)).rejects.toThrow(JSON.stringify(told).slice(1, -1));
  const [line] = linesOf(name, 'server not started');
  expect(line).toContain(logged);
  expect(linesOf(name, 'server lost')).toEqual([]);
});

test('the log names the first line on stdout that is no message, and quotes none that may hold data', async () => {
  const { token } = await on.gateway.createSession({ userId: 'ada' });
  await Promise.all(['prints', 'damages'].map((name) => callModern(to(name), token, 'mark')));
  expect(linesOf('prints', 'server output ignored')).toEqual([
    expect.stringContaining(' line="ready [secret]" hint="'),
  ]);
  expect(linesOf('damages', 'server output ignored')).toEqual([expect.not.stringContaining('data')]);
});

test('a session does not see what the process of another session wrote', async () => {
  const list = async () => {
    const { token } = await on.gateway.createSession({ userId: 'grace', workspaceId: 'garden', servers: ['no-key'] });
    const body = JSON.stringify(modernRequest(1, 'tools/list'));
    const answer = await post(`${on.url}/mcp`, token, body, modernHeaders('tools/list'));
    const meta = answer.messages.at(-1)?.result?._meta as unknown as Record<
      string,
      { server: string; reason: string }[]
    >;
    return meta['ambit/unavailable']?.find(({ server }) => server === 'no-key')?.reason;
  };
  expect(await list()).toContain('before it answered. It wrote to stderr: "Error: ');
  expect(await list()).toMatch(/before it answered\.$/);
});

test('an end that Ambit asked for, or a server decided on with nobody waiting, is not logged as lost', async () => {
  const { id, token } = await on.gateway.createSession({ userId: 'ada' });
  // A modern client: the process that was asked for its era serves the call, and ends with it.
  await callModern(to('works'), token, 'mark');
  await vi.waitFor(() => expect(linesOf('works', 'server ended')).toHaveLength(1), patience);
  const client = await openClient(to('works'), token);
  await client.call('mark');
  await on.gateway.endSession(id);
  await vi.waitFor(() => expect(linesOf('works', 'server ended')).toHaveLength(2), patience);
  expect(linesOf('works', 'server lost')).toEqual([]);

  const other = await on.gateway.createSession({ userId: 'ada' });
  const leaving = await openClient(to('leaves'), other.token);
  await leaving.call('mark', { code: 0 });
  await vi.waitFor(() => expect(linesOf('leaves', 'server ended')).toHaveLength(1), patience);
  expect(linesOf('leaves', 'server lost')).toEqual([]);
  await leaving.call('mark', { code: 3 });
  await vi.waitFor(() => expect(linesOf('leaves', 'server lost')).toHaveLength(1), patience);
  expect(linesOf('leaves', 'server lost')[0]).toContain('code=3');
});
