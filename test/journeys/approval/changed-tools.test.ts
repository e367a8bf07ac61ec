import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type ClientCapabilities, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { requestControl } from '../request-control.ts';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { approveServers } from './approve.ts';

let folder: string;
let ambit: RunningAmbit;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-turncoat-'));
  mkdirSync(join(folder, 'project'));
  const mcpServers: Record<string, unknown> = {};
  for (const name of ['one', 'two', 'three', 'four']) {
    copyFileSync(join(import.meta.dirname, 'changes-its-tools.js'), join(folder, 'project', `${name}.mjs`));
    mcpServers[name] = { command: 'node', args: [`${name}.mjs`] };
  }
  writeFileSync(join(folder, 'project', '.mcp.json'), JSON.stringify({ mcpServers }));
  ambit = await startAmbit({ include: [join(folder, 'project', '.mcp.json')] });
  for (const name of Object.keys(mcpServers)) await approveServers(ambit, name);
});
afterAll(async () => {
  await ambit.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** In a session that may use that server only: the others need not start for it. */
async function client(
  server: string,
  address: string,
  mode: 'legacy' | { pin: string },
  capabilities: ClientCapabilities = {},
): Promise<Client> {
  const { token } = await ambit.session({ servers: [server] });
  const found = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode }, capabilities });
  // With the header of a parameter, Ambit looks for it in the list of the tools before the call.
  const requestInit = { headers: { Authorization: `Bearer ${token}`, 'Mcp-Param-Any': 'x' } };
  await found.connect(new StreamableHTTPClientTransport(new URL(address), { requestInit }));
  return found;
}

async function countProcesses(server: string): Promise<number | undefined> {
  const path = '/api/v1/servers';
  const socket = join(ambit.dataDir, 'control.sock');
  const { servers } = await requestControl<{ servers: { name: string; processes: number }[] }>(socket, 'GET', path);
  return servers.find(({ name }) => name === server)?.processes;
}

const modern = { pin: '2026-07-28' };

describe.each([
  ['one', '/mcp/one', 'legacy'],
  ['two', '/mcp/two', modern],
] as const)('tools of "%s" for clients with other capabilities', (server, path, mode) => {
  test('are approved with the first listing, and only those', async () => {
    const described = async (from: Client) =>
      (await from.listTools()).tools.map(({ name, description }) => `${name}: ${description}`).sort();
    const plain = await client(server, `${ambit.url}${path}`, mode);
    expect(await plain.callTool({ name: 'never-listed', arguments: {} })).toMatchObject({ isError: true });
    expect(await described(plain)).toEqual(['read: Reads', 'turn: Does nothing much']);
    // The process of the other listing has ended, or is about to.
    await expect.poll(() => countProcesses(server), { timeout: 50_000 }).toBe(1);
    const sampling = await client(server, `${ambit.url}${path}`, mode, { sampling: {} });
    const theirs = ['ask: Asks the model', 'read: Reads and summarizes', 'turn: Does nothing much'];
    expect(await described(sampling)).toEqual(theirs);
    const called = await sampling.callTool({ name: 'ask', arguments: {} });
    expect(called.content).toEqual([{ type: 'text', text: 'ask done' }]);
    const refused = await sampling.callTool({ name: 'odd', arguments: {} });
    expect(JSON.stringify(refused)).toContain(`ambit server approve ${server}`);

    const turned = await client(server, `${ambit.url}${path}`, mode, { sampling: {} });
    await turned.callTool({ name: 'turn', arguments: {} });
    await expect.poll(() => described(turned), { timeout: 50_000 }).toEqual(['turn: Does nothing much']);
    for (const name of ['ask', 'read', 'odd', 'extra']) {
      expect(await turned.callTool({ name, arguments: {} }), name).toMatchObject({ isError: true });
    }
    for (const each of [plain, sampling, turned]) await each.close();
  });
});

describe.each([
  ['one', '/mcp', 'one__', 'legacy'],
  ['two', '/mcp', 'two__', modern],
  ['three', '/mcp/three', '', 'legacy'],
  ['four', '/mcp/four', '', modern],
] as const)('tools of "%s" that change after approval, at %s', (server, path, prefix, mode) => {
  test('are withheld from lists and calls', async () => {
    const before = await client(server, `${ambit.url}${path}`, mode);
    const names = async (from: Client) =>
      (await from.listTools()).tools.map((tool) => tool.name).filter((name) => name.startsWith(prefix));
    expect((await names(before)).sort()).toEqual([`${prefix}read`, `${prefix}turn`]);
    const unlisted = await before.callTool({ name: `${prefix}never-listed`, arguments: {} });
    expect(unlisted).toMatchObject({ isError: true });
    expect(JSON.stringify(unlisted.content)).toContain('lists no approved tool');
    await before.callTool({ name: `${prefix}turn`, arguments: {} });

    const after = await client(server, `${ambit.url}${path}`, mode);
    await after.callTool({ name: `${prefix}turn`, arguments: {} });
    await expect.poll(() => names(after), { timeout: 50_000 }).toEqual([`${prefix}turn`]);
    const descriptions = JSON.stringify((await after.listTools()).tools);
    expect(descriptions).not.toMatch(/Send all files|EVIL/);
    for (const tool of ['read', 'extra']) {
      const refused = await after.callTool({ name: `${prefix}${tool}`, arguments: {} });
      expect(refused.isError).toBe(true);
      expect(JSON.stringify(refused.content)).toContain(`ambit server approve ${server}`);
      if (prefix === '') continue;
      // Without the name of the server, as apps call it, it is not told apart from a tool that does not exist.
      const bare = JSON.stringify((await after.callTool({ name: tool, arguments: {} })).content);
      expect(bare).toContain(`No server of this session has \\"${tool}\\"`);
      expect(bare).not.toContain('approve');
    }
    await before.close();
    await after.close();
  });
});

test('the check of a server lists as other clients too, so nothing has changed', async () => {
  const places = ['--config', join(ambit.folder, 'etc', 'ambit.yaml'), '--data-dir', ambit.dataDir];
  const { stdout } = await ambitInProcess(['server', 'check', 'one', '--json', ...places]);
  expect(JSON.parse(stdout)).toMatchObject({ tools: 3, changes: [] });
});
