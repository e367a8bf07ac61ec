import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { repository } from './source-files.ts';

test('ARCHITECTURE.md shows the request pipeline as the code has it', () => {
  const script = 'scripts/describe-pipeline.js';
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { cwd: repository, encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
});
