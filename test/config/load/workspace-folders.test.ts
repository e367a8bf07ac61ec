import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import {
  findWorkspace,
  findWorkspacesAt,
  listWorkspaceFolders,
  listWorkspaces,
  prepareWorkspaceFolders,
} from '../../../src/config/load/workspace-folders.ts';
import type { Config } from '../../../src/config/schema/schema.ts';
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

describe('a pattern makes a workspace of each folder', () => {
  const src = at('src');
  let config: Config;

  async function load(workspaces: object): Promise<Config> {
    const text = JSON.stringify({ version: 1, workspaces });
    return (await loadConfig({ text, file: at('ambit.yaml') })).config;
  }

  beforeEach(async () => {
    rmSync(src, { recursive: true, force: true });
    for (const name of [
      'shop',
      'web.site',
      'a_b',
      'secret',
      'named',
      'My Shop',
      'Shop',
      'größe',
      '.git',
      '...',
      'x\u001b',
    ])
      mkdirSync(join(src, name), { recursive: true });
    writeFileSync(join(src, 'file'), '');
    for (const [name, target] of [
      ['link', '/'],
      ['inner', 'shop'],
      ['dangling', 'nowhere'],
      ['to-file', 'file'],
    ] as const)
      symlinkSync(target, join(src, name));
    config = await load({
      'src-*': { path: 'src/*', trust: 'sandboxed', git: 'write' },
      'src-named': { path: at('projects') },
      vault: { path: join(src, 'secret') },
    });
  });

  test('with the settings of the pattern, unless it is configured by its name or its folder', () => {
    const shop = { path: join(src, 'shop'), trust: 'sandboxed', git: 'write', pattern: 'src-*' };
    expect(findWorkspace(config, 'src-shop')).toMatchObject(shop);
    expect(findWorkspace(config, 'src-shop')).toBe(findWorkspace(config, 'src-shop'));
    expect(findWorkspace(config, 'src-named')).toMatchObject({ path: at('projects'), trust: 'direct' });
    expect(findWorkspace(config, 'src-secret')).toBeUndefined();
    expect(findWorkspacesAt(config, join(src, 'shop/'))).toEqual(['src-shop']);
    expect(findWorkspacesAt(config, join(src, 'secret'))).toEqual(['vault']);
    for (const path of [src, '/', join(src, 'link'), join(src, 'shop/x'), 'src/shop', join(src, 'Shop')])
      expect(findWorkspacesAt(config, path), path).toEqual([]);
  });

  test('W3: links, hidden folders, files and names that lead elsewhere are no workspaces', () => {
    const wrong = [
      'link',
      'inner',
      'dangling',
      'file',
      '.git',
      '.',
      '..',
      '...',
      '',
      '*',
      'Shop',
      'shop/',
      '../src/shop',
    ];
    for (const name of [...wrong, 'shop\0', 'größe', 'My Shop', '__proto__'])
      expect(findWorkspace(config, `src-${name}`), name).toBeUndefined();
    expect(findWorkspace(config, 'shop')).toBeUndefined();
  });

  test('W3: a folder that is made later is found, and one that is removed or becomes a link is not', () => {
    expect(findWorkspace(config, 'src-later')).toBeUndefined();
    mkdirSync(join(src, 'later'));
    expect(findWorkspace(config, 'src-later')).toBeDefined();
    renameSync(join(src, 'later'), at('moved'));
    expect(findWorkspace(config, 'src-later')).toBeUndefined();
    symlinkSync(at('moved'), join(src, 'later'));
    expect(findWorkspace(config, 'src-later')).toBeUndefined();
    rmSync(at('moved'), { recursive: true });
  });

  test('lists say what is left out, and why; a large folder is read in part', () => {
    const { names, leftOut, incomplete } = listWorkspaces(config);
    expect(names).toEqual(['src-a_b', 'src-named', 'src-shop', 'src-web.site', 'vault']);
    expect(leftOut.map(({ folder: name, reason }) => `${name}: ${reason}`)).toEqual(
      [
        '...: it is hidden',
        '.git: it is hidden',
        'My Shop: its name is not a slug',
        'Shop: its name is not a slug',
        'größe: its name is not a slug',
        'inner: it is a symbolic link',
        'link: it is a symbolic link',
        'named: "src-named" is configured by its name',
        'secret: another workspace has this folder',
        'x\u001b: its name is not a slug',
      ].sort(),
    );
    expect(incomplete).toEqual([]);
    expect(listWorkspaceFolders(config)).toContain(join(src, 'shop'));
    for (let i = 0; i < 1000; i++) mkdirSync(join(src, `n${i}`));
    const large = listWorkspaces(config);
    expect(large.incomplete).toEqual([{ pattern: 'src-*', reason: 'only 1000 entries were read' }]);
    expect(large.names.length + large.leftOut.length).toBeLessThanOrEqual(1002);
    expect(findWorkspace(config, 'src-n999')).toBeDefined();
    rmSync(src, { recursive: true });
    expect(listWorkspaces(config)).toEqual({
      names: ['src-named', 'vault'],
      leftOut: [],
      incomplete: [{ pattern: 'src-*', reason: 'its folder cannot be read' }],
    });
  });

  test('the "*" may be anywhere in the name', async () => {
    const others = await load({ '*': { path: 'src/*' } });
    expect(listWorkspaces(others).names).toEqual(['a_b', 'named', 'secret', 'shop', 'web.site']);
    const inside = await load({ 'in-*-here': { path: 'src/*' } });
    expect(findWorkspace(inside, 'in-shop-here')?.path).toBe(join(src, 'shop'));
    for (const id of ['in-shop', 'in--here', 'in-here', 'in-shop-here-'])
      expect(findWorkspace(inside, id)).toBeUndefined();
  });

  test.each([
    [{ 'src-*': { path: 'src' } }, 'the path of a pattern ends in "/*"'],
    [{ 'src-*': { path: 'src/*/x' } }, 'the path of a pattern ends in "/*"'],
    [{ 'src-*': { path: 'sr*/*' } }, 'the path of a pattern ends in "/*"'],
    [{ 'src-*': { path: 'src/a*' } }, 'the path of a pattern ends in "/*"'],
    [{ 'src-**': { path: 'src/*' } }, 'a pattern also has one "*"'],
    [{ src: { path: 'src/*' } }, 'needs a name with "*"'],
    [{ 'src-*': { path: 'src/*', create: true } }, 'a pattern makes no folders'],
    [{ 'src-*': { backend: 'database' } }, 'only the backend "local"'],
    [{ 'src-*': { path: 'src/*' }, 'src-old-*': { path: 'old/*' } }, '"src-*" and "src-old-*" could make two'],
    [{ 'a-*': { path: 'src/*' }, '*-b': { path: 'old/*' } }, '"a-*" and "*-b" could make two'],
  ])('%j is refused', async (workspaces, words) => {
    await expect(load(workspaces)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining(words),
    });
  });

  test('the folder above must exist', async () => {
    const missing = await load({ 'src-*': { path: 'srx/*' } });
    expect(() => prepareWorkspaceFolders(missing)).toThrow(
      `workspaces.src-*.path: there is no folder ${at('srx')}; did you mean ${src}?`,
    );
    prepareWorkspaceFolders(config);
  });

  test('W3: an included file is hidden in every folder of the pattern', async () => {
    writeFileSync(join(src, 'shop/.mcp.json'), '{"mcpServers":{}}');
    const text = JSON.stringify({
      version: 1,
      include: ['src/shop/.mcp.json'],
      workspaces: { '*': { path: 'src/*' } },
    });
    const including = (await loadConfig({ text, file: at('ambit.yaml') })).config;
    expect(findWorkspace(including, 'shop')?.files.hide).toEqual(['.mcp.json']);
  });
});
