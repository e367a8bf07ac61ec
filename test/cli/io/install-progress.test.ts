import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { drawInstalls } from '../../../src/cli/io/install-progress.ts';

test('a terminal shows all installations in one line, and a line for each that is done', () => {
  const terminal = new PassThrough();
  const onInstall = drawInstalls(terminal);
  const drawn = () =>
    String(terminal.read() ?? '')
      .split('\r')
      .filter((text) => text !== '');
  onInstall({ package: '@s/one', state: 'started' });
  expect(drawn()).toEqual(['\u001b[KInstalling @s/one … 0 s']);
  onInstall({ package: 'two@1', state: 'started' });
  expect(drawn()).toEqual(['\u001b[KInstalling @s/one, two@1 … 0 s']);
  onInstall({ package: '@s/one', state: 'installed' });
  expect(drawn()).toEqual(['\u001b[KInstalled @s/one in 0 s\n', '\u001b[KInstalling two@1 … 0 s']);
  onInstall({ package: 'two@1', state: 'failed' });
  expect(drawn()).toEqual(['\u001b[K']);
});
