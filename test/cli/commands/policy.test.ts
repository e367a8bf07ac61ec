import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { repository } from '../../journeys/start-ambit.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

const page = readFileSync(join(repository, 'docs/how-to/policies-that-reach-the-model.md'), 'utf8');
const fences = [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({ language, text }));
const blocks = (language: string) => fences.flatMap((fence) => (fence.language === language ? (fence.text ?? '') : []));

let folder: string;
let places: string[];
const ambit = async (...args: string[]) => ambitInProcess([...args, ...places]);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-policies-'));
  mkdirSync(join(folder, 'etc'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function useDataDir(name: string, config: string): void {
  const file = join(folder, 'etc', `${name}.yaml`);
  if (!existsSync(file)) writeFileSync(file, config);
  places = ['--config', file, '--data-dir', join(folder, name)];
}

describe('policies on the command line', () => {
  test('G5: what the configuration of the how-to declares wins, and is not changed from here', async () => {
    useDataDir('declared', blocks('yaml').at(-1) ?? '');
    for (const verb of ['add', 'remove']) {
      const words = verb === 'add' ? ['--mode', 'append', 'Other.'] : [];
      const { code, stderr } = await ambit('policy', verb, '--scope', 'org', '--name', 'require-tests', ...words);
      expect(code).toBe(1);
      expect(stderr).toContain('declared in the configuration');
    }
    expect((await ambit('objective', 'remove', 'file-1')).stderr).toContain('declared in the configuration');
    await ambit('policy', 'add', '--scope', 'user:ann', '--name', 'require-tests', 'Never mind.');
    await ambit(
      'policy',
      'add',
      '--scope',
      'workspace:my-project',
      '--name',
      'first',
      '--order=-1',
      '--mode',
      'append',
      'A.',
    );
    const { stdout } = await ambit(
      'policy',
      'list',
      '--effective',
      '--user',
      'ann',
      '--workspace',
      'my-project',
      '--json',
    );
    const { policies, block } = JSON.parse(stdout) as {
      policies: { scope: string; name: string; outcome: string; by: string | null }[];
      block: string;
    };
    expect(policies.map(({ scope, name, outcome, by }) => [scope, name, outcome, by])).toEqual([
      ['org', 'require-tests', 'given', null],
      ['user:ann', 'require-tests', 'locked out', 'org'],
      ['workspace:my-project', 'first', 'given', null],
      ['workspace:my-project', 'small-steps', 'given', null],
    ]);
    expect(block).not.toContain('Never mind.');
  });

  test('wrong input is refused with the reason', async () => {
    useDataDir('wrong', 'version: 1\n');
    const add = (...args: string[]) => ambit('policy', 'add', ...args);
    expect((await add('--name', 'a', 'x')).code).toBe(2);
    expect((await add('--scope', 'org', 'x')).code).toBe(2);
    expect((await add('--scope', 'org', '--name', 'a')).code).toBe(2);
    expect((await add('--scope', 'org', '--name', 'a', '--mode', 'replace', 'x')).code).toBe(2);
    expect((await add('--scope', 'org', '--name', 'a', '--order', '1.5', 'x')).code).toBe(2);
    for (const [scope, name, text] of [
      ['everyone', 'a', 'x'],
      ['team:', 'a', 'x'],
      ['user:a b', 'a', 'x'],
      ['org', '../a', 'x'],
      ['org', 'a', '\u001b[2J'],
      ['org', 'a', ' '],
    ] as const) {
      expect(await add('--scope', scope, '--name', name, text)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('REQUEST_INVALID'),
      });
    }
    expect((await ambit('policy', 'remove', '--scope', 'org', '--name', 'a')).code).toBe(1);
    expect((await ambit('objective', 'remove', 'o-1')).code).toBe(1);
    expect((await ambit('policy', 'list', '--effective')).code).toBe(2);
    expect((await ambit('policy', 'list')).stdout).toBe('No policies. Add one with "ambit policy add".\n');
    expect((await ambit('objective', 'list')).stdout).toBe('No objectives. Add one with "ambit objective add".\n');
  });

  test('with a running gateway the same, and each change is in the journal', async () => {
    useDataDir('running', 'version: 1\n');
    const [, configFile = '', , dataDir = ''] = places;
    const gateway = await openControlledGateway(configFile, dataDir);
    try {
      await ambit('user', 'add', 'ann', '--team', 'core');
      await ambit('policy', 'add', '--scope', 'team:core', '--name', 'a', '--locked', 'Of', 'the', 'team.');
      const added = JSON.parse((await ambit('objective', 'add', '--scope', 'team:core', 'Go.', '--json')).stdout);
      expect(added).toMatchObject({ scope: 'team:core', text: 'Go.', declared: false });
      expect((await ambit('policy', 'list')).stdout).toContain('team:core  a       prepend  locked  Of the team.');
      const { stdout } = await ambit('policy', 'list', '--effective', '--user', 'ann');
      expect(stdout).toContain('  - [prepend] a: Of the team. (inherited)');
      expect((await ambit('policy', 'list', '--effective', '--user', 'bob')).stdout).toContain(
        'No policies or objectives',
      );
      await ambit('objective', 'remove', (added as { id: string }).id);
      await ambit('policy', 'remove', 'a', '--scope', 'team:core');
    } finally {
      await gateway.close();
    }
    const events = readFileSync(join(dataDir, 'journal', 'journal.jsonl'), 'utf8');
    for (const event of ['policy-set', 'objective-added', 'objective-removed', 'policy-removed']) {
      expect(events).toContain(`"event":"${event}"`);
    }
    expect(events).not.toContain('Of the team');
  });
});
