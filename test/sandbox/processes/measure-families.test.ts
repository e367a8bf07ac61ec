import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { measureFamilies } from '../../../src/sandbox/processes/measure-families.ts';

const megabyte = 1 << 20;
/** Prints a line once it and its child hold some memory. The child is in a group of its own. */
const program = `
const held = Buffer.alloc(${64 * megabyte}, 1);
const child = require('node:child_process').spawn(process.execPath, ['-e', \`
  const held = Buffer.alloc(${64 * megabyte}, 1);
  process.stdout.write('ready\\\\n');
  process.stdin.resume().on('end', () => process.exit(held.length === 0 ? 1 : 0));
\`], { detached: true, stdio: ['pipe', 'inherit', 'inherit'] });
process.stdin.resume().on('end', () => { child.stdin.end(); process.exit(held.length === 0 ? 1 : 0); });
`;

test.runIf(process.platform === 'linux')('a family is measured with everything it has started', async () => {
  const parent = spawn(process.execPath, ['-e', program], { detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    parent.stdin.end();
    await once(parent, 'exit');
  });
  await once(createInterface({ input: parent.stdout }), 'line');
  const pid = parent.pid as number;
  const family = measureFamilies([pid, 1, 2 ** 30]);
  expect([...family.keys()]).toEqual([pid]);
  const { memoryBytes, processes } = family.get(pid) ?? { memoryBytes: 0, processes: 0 };
  expect(processes).toBe(2);
  expect(memoryBytes).toBeGreaterThan(128 * megabyte);
  expect(memoryBytes).toBeLessThan(1024 * megabyte);
  // Many readers get the same measurement.
  expect(measureFamilies([pid]).get(pid)).toBe(family.get(pid));
});

test('nothing is read if nothing is asked', () => {
  expect(measureFamilies([]).size).toBe(0);
});
