import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { fileKeys, findConfiguredFiles } from '../../../src/config/load/configured-paths.ts';
import { loadConfig } from '../../../src/config/load/load.ts';
import { assertOutOfReach } from '../../../src/config/load/out-of-reach.ts';
import { createConfigJsonSchema, type JsonSchema } from '../../../src/config/schema/json-schema.ts';
import { configSchema } from '../../../src/config/schema/schema.ts';
import { filePath } from '../../../src/config/schema/schema-parts.ts';
import { createPathGuard, createPathRules } from '../../../src/workspaces/path-guard.ts';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-file-keys-')));
const at = (...names: string[]): string => join(root, ...names);
afterAll(() => rmSync(root, { recursive: true }));

/** Every key whose value is a path, by the form of paths. */
function pathKeys(schema: JsonSchema, above: readonly string[]): string[] {
  const inner = (each: JsonSchema | boolean | undefined, ...names: string[]) =>
    typeof each === 'object' ? pathKeys(each, [...above, ...names]) : [];
  return [
    ...(schema.pattern === filePath._zod.def.checks?.map(patternOf).find(Boolean) ? [above.join('.')] : []),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, each]) => inner(each, name)),
    ...inner(schema.additionalProperties, '*'),
    ...inner(schema.items, '*'),
    ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((each) => inner(each)),
  ];
}
const patternOf = (check: { _zod: { def: object } }) => (check._zod.def as { pattern?: RegExp }).pattern?.source;

test('S4: every key of the configuration that names a file says what the file is', () => {
  const found = new Set(pathKeys(createConfigJsonSchema(), []));
  expect([...found].sort()).toEqual(Object.keys(fileKeys).sort());
});

test('S4: no secret of the configuration lies where a session can read it, and no setting where it can rewrite it', () => {
  for (const folder of ['etc', 'work', 'shown']) mkdirSync(at(folder));
  const check = (secrets: string, cert: string) => {
    const clientSecretFile = at(secrets, 'oauth');
    const config = configSchema.parse({
      version: 1,
      listen: { tls: { cert: at(cert, 'cert'), key: at(secrets, 'key') } },
      auth: { keys: { url: 'https://h/', secretFile: at(secrets, 'callback') } },
      credentials: { keyFile: at(secrets, 'sealing') },
      events: { webhook: { url: 'https://h/', secretFile: at(secrets, 'hook') } },
      servers: {
        far: { url: 'https://h/mcp', oauth: { issuer: 'https://h', clientId: 'x', clientSecretFile } },
        near: { command: 'x', sandbox: { readable: [at('shown')] } },
      },
      workspaces: { work: { path: at('work') } },
    });
    const keys = findConfiguredFiles(config, 'secret').map(({ key }) => key);
    expect(keys).toHaveLength(Object.values(fileKeys).filter((role) => role === 'secret').length);
    try {
      assertOutOfReach({ configFile: at('etc/ambit.yaml'), dataDir: at('data'), config });
    } catch (error) {
      const named = [...keys, 'listen.tls.cert'].filter((key) =>
        String(error).includes(`set its new path with ${key}`),
      );
      return named.length === keys.length ? 'secrets' : named.join();
    }
    return 'started';
  };
  expect(check('etc', 'etc')).toBe('started');
  expect(check('work', 'etc')).toBe('secrets');
  expect(check('shown', 'etc')).toBe('secrets');
  expect(check('etc', 'work')).toBe('listen.tls.cert');
  expect(check('etc', 'shown')).toBe('started');
});

test('S4: an included file that lies in a workspace is hidden from the file tools, by every name it has', async () => {
  mkdirSync(at('repo/sub'), { recursive: true });
  writeFileSync(at('repo/sub/servers [1].json'), '{}');
  symlinkSync('sub/servers [1].json', at('repo/link.json'));
  const text = JSON.stringify({
    version: 1,
    include: ['../repo/link.json', '../repo/.mcp.json', 'apart.json'],
    workspaces: { repo: { path: '../repo' }, other: { path: '..', files: { open: ['.mcp.json'] } } },
  });
  const { config } = await loadConfig({ text, file: at('etc/ambit.yaml') });
  const guardOf = (slug: string) =>
    createPathGuard(createPathRules((config.workspaces[slug] as (typeof config.workspaces)[string]).files));
  const judge = (slug: string, path: string) => guardOf(slug).refusal('read', path.split('/'));
  for (const path of ['link.json', 'sub/servers [1].json', '.mcp.json']) {
    expect.soft(judge('repo', path), path).toBe('is hidden from sessions');
  }
  expect(judge('repo', 'sub/servers 1.json')).toBeUndefined();
  expect(judge('repo', 'apart.json')).toBeUndefined();
  expect(judge('other', 'repo/sub/servers [1].json')).toBe('is hidden from sessions');
  expect(judge('other', 'etc/apart.json')).toBe('is hidden from sessions');
  // The operator has the last word.
  expect(judge('other', 'repo/.mcp.json')).toBeUndefined();
});
