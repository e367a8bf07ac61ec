import { expect, test } from 'vitest';
import { AmbitError } from '../../src/errors.ts';
import { attachResolution, createResolutionRecorder, type FileResolution } from '../../src/workspaces/resolutions.ts';

const same = (text: string) => text;

test('W4: the requested path, the resolved path and the decision are recorded', async () => {
  const told: FileResolution[] = [];
  const resolutions = createResolutionRecorder((each) => told.push(each));
  await resolutions.run('open', 'a/link', async () => 'b/file', same);
  const refused = resolutions.run(
    'write',
    'notes',
    () => {
      throw attachResolution(new AmbitError('PATH_PROTECTED'), { asked: 'notes', resolved: '.git/hooks/pre-commit' });
    },
    same,
  );
  await expect(refused).rejects.toThrow();
  resolutions.finish();
  expect(told).toEqual([
    { operation: 'open', asked: 'a/link', resolved: 'b/file', decision: 'allowed', code: undefined },
    {
      operation: 'write',
      asked: 'notes',
      resolved: '.git/hooks/pre-commit',
      decision: 'refused',
      code: 'PATH_PROTECTED',
    },
  ]);
});

test('a search records its start and the number of paths; each change is recorded', async () => {
  const told: FileResolution[] = [];
  const resolutions = createResolutionRecorder((each) => told.push(each));
  for (let at = 0; at < 1000; at++) await resolutions.run('list', `folder-${at}`, async () => `folder-${at}`, same);
  for (let at = 0; at < 3; at++) await resolutions.run('write', `file-${at}`, async () => `file-${at}`, same);
  resolutions.finish();
  expect(told.filter(({ operation }) => operation === 'write')).toHaveLength(3);
  expect(told.filter(({ operation }) => operation === 'list')).toMatchObject([
    { asked: 'folder-0' },
    { asked: 'folder-0', further: 999 },
  ]);
});
