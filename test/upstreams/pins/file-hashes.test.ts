import { statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createFileHashes } from '../../../src/upstreams/pins/file-hashes.ts';

/** Linux has a file whose content is another at each reading while its size, times and inode stay the same. */
const restless = '/proc/sys/kernel/random/uuid';

test.runIf(process.platform === 'linux')('a file that changed less than two seconds ago is not remembered', () => {
  const { ctimeMs } = statSync(restless);
  const young = createFileHashes(() => Math.ceil(ctimeMs) + 1900);
  expect(young.reader()(restless)).not.toEqual(young.reader()(restless));
  const settled = createFileHashes(() => Math.ceil(ctimeMs) + 2100);
  expect(settled.reader()(restless)).toEqual(settled.reader()(restless));
});
