import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { prepareWorkspaceFolders } from '../../../src/config/load/workspace-folders.ts';
import { createGateway } from '../../../src/public/create-gateway.ts';
import { callModern } from '../../journeys/json-mcp-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-folders-'));
const at = (...names: string[]) => join(folder, ...names);
mkdirSync(at('projects', 'shop'), { recursive: true });
writeFileSync(at('file'), '');
afterAll(() => rmSync(folder, { recursive: true }));

async function prepare(path: string, create?: boolean): Promise<void> {
  const text = JSON.stringify({ version: 1, workspaces: { w: { path, ...(create === undefined ? {} : { create }) } } });
  prepareWorkspaceFolders((await loadConfig({ text, file: at('ambit.yaml') })).config);
}

test.each([
  ['projects/shpo', `there is no folder ${at('projects/shpo')}; did you mean ${at('projects/shop')}?`],
  ['projcts/shop', `there is no folder ${at('projcts/shop')}; did you mean ${at('projects/shop')}?`],
  ['elsewhere', `there is no folder ${at('elsewhere')}`],
  ['file', `${at('file')} is not a folder`],
  ['file/below', `${at('file/below')} is not a folder`],
])('a workspace in %s is refused, and nothing is made', async (path, expected) => {
  await expect(prepare(path)).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: `workspaces.w.path: ${expected}`,
  });
  await expect(prepare(path)).rejects.toMatchObject({ hint: expect.stringContaining('create: true') });
  for (const made of ['projects/shpo', 'projcts', 'elsewhere']) expect(existsSync(at(made))).toBe(false);
});

test('with create: true it is made, where that is possible', async () => {
  await prepare('new/shop', true);
  expect(existsSync(at('new/shop'))).toBe(true);
  for (const path of ['/proc/x/y', 'file/x']) {
    await expect(prepare(path, true)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  }
});

test('a gateway neither starts with such a workspace nor takes it over, and a folder that is removed is not made again', async () => {
  const log = { info() {}, warn() {} };
  const [good, bad] = ['shop', 'shpo'].map((name) => ({
    version: 1 as const,
    store: { kind: 'memory' as const },
    servers: { notes: { command: 'cat' } },
    workspaces: { w: { path: at('projects', name) } },
  })) as [object, object];
  await expect(createGateway({ config: bad as never, dataDir: at('data'), log })).rejects.toThrow(/did you mean/);
  const gateway = await createGateway({ config: good as never, dataDir: at('data'), log });
  try {
    await expect(gateway.reload(bad as never)).rejects.toThrow(/did you mean/);
    const { token } = await gateway.createSession({ workspaceId: 'w', trustLevel: 'direct' });
    const { url } = await gateway.listen({ port: 0 });
    rmSync(at('projects/shop'), { recursive: true });
    const { text } = await callModern(`${url}/mcp/notes`, token, 'add');
    expect(text).toContain('WORKSPACE_UNAVAILABLE');
    expect(existsSync(at('projects/shop'))).toBe(false);
  } finally {
    await gateway.close();
  }
});
