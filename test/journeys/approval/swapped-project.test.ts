import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { approveServers } from './approve.ts';

const source = readFileSync(join(import.meta.dirname, 'marks-its-start.js'), 'utf8');
const names = ['edited', 'linked', 'restarted', 'plain'] as const;
let folder: string;
let marks: string;
let ambit: RunningAmbit;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-swapped-'));
  marks = join(folder, 'marks.log');
  mkdirSync(join(folder, 'project'));
  const servers = names.map((name) => {
    writeFileSync(join(folder, 'project', `${name}.mjs`), source);
    return [name, { command: 'node', args: [`${name}.mjs`, name], env: { MARKS: marks } }] as const;
  });
  writeFileSync(join(folder, 'project', '.mcp.json'), JSON.stringify({ mcpServers: Object.fromEntries(servers) }));
  ambit = await startAmbit({ include: [join(folder, 'project', '.mcp.json')] });
});
afterAll(async () => {
  await ambit.stop();
  rmSync(folder, { recursive: true, force: true });
});

const started = () => (existsSync(marks) ? readFileSync(marks, 'utf8').trim().split('\n') : []);

async function call(server: string, token: string, tool = 'ping'): Promise<string> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  };
  const response = await fetch(ambit.mcp(server), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': tool,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: tool, arguments: {}, _meta: meta },
    }),
  });
  const { result, error } = (await response.json()) as {
    result?: { content: { text: string }[] };
    error?: { message: string };
  };
  return result?.content[0]?.text ?? `error ${error?.message}`;
}

const session = async () => (await ambit.session()).token;

test('nothing of a project starts before it is approved, and the model is told what to do', async () => {
  const text = await call('plain', await session());
  expect(text).toMatch(/^SERVER_NOT_APPROVED: The server "plain" comes from a project file/);
  expect(text).toContain('ambit server approve plain');
  expect(started()).toEqual([]);
});

test('an approval reaches the running gateway; the next call works', async () => {
  const token = await session();
  expect(await call('plain', token)).toContain('SERVER_NOT_APPROVED');
  await approveServers(ambit, 'plain');
  expect(await call('plain', token)).toBe('pong');
  expect(started()).toEqual(['plain']);
});

test('a script that is edited, or swapped for a link, does not start again', async () => {
  for (const name of ['edited', 'linked'] as const) {
    await approveServers(ambit, name);
    const script = join(folder, 'project', `${name}.mjs`);
    rmSync(script);
    if (name === 'edited') writeFileSync(script, `${source}\n`);
    else symlinkSync(join(folder, 'project', 'plain.mjs'), script);
    const text = await call(name, await session());
    expect(text).toMatch(/^SERVER_NOT_APPROVED: The server ".*" has changed since it was approved \(script/);
    expect(text).not.toContain(folder);
    expect(started()).not.toContain(name);
  }
});

test('a link that was made while all was well does not start a swapped script either', async () => {
  await approveServers(ambit, 'restarted');
  const token = await session();
  expect(await call('restarted', token, 'leave')).toBe('pong');
  writeFileSync(join(folder, 'project', 'restarted.mjs'), `${source}\n`);
  await expect
    .poll(() => call('restarted', token), { timeout: 50_000, interval: 100 })
    .toContain('SERVER_NOT_APPROVED: The server "restarted" has changed');
  expect(started().filter((mark) => mark === 'restarted')).toHaveLength(1);
});
