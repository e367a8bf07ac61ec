import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { taggedProcesses } from '../../runners/tagged-processes.ts';
import { initialize, modernRequest } from './mcp-calls.ts';
import { type Run, startRun } from './start-run.ts';
import { residentMb } from './vital-signs.ts';

let run: Run;

beforeEach(async () => {
  run = await startRun();
  await run.say(`${JSON.stringify(initialize())}\n`);
  await run.answer(0);
  expect(upstreams()).toBe(1);
});
afterEach(() => run?.stop());

function upstreams(): number {
  return taggedProcesses(join(run.folder, 'data', 'tmp')).length;
}

function pid(): number {
  return run.process.pid as number;
}

/** It leaves by itself, with what it started. */
async function expectLeft(): Promise<void> {
  if (run.process.exitCode === null) await once(run.process, 'exit');
  expect(run.process.exitCode).toBe(0);
  expect(upstreams()).toBe(0);
  expect(run.errors()).toBe('');
}

test('a line that never ends: the memory stays where it was, and the client is let go', async () => {
  const before = residentMb(pid());
  let peak = before;
  const block = Buffer.alloc(1 << 20, 'x');
  const left = once(run.process, 'exit');
  let over = false;
  void left.then(() => {
    over = true;
  });
  for (let sent = 0; sent < 64 && !over; sent++) {
    await Promise.race([run.say(block), left]);
    if (!over) peak = Math.max(peak, residentMb(pid()));
  }
  await left;
  expect(peak - before).toBeLessThan(100);
  await expectLeft();
});

test('a client that writes and never reads is held back, and does not keep Ambit from leaving', async () => {
  run.process.stdout.pause();
  const before = residentMb(pid());
  let held = false;
  // Each of these lines is answered with an error longer than itself.
  for (let sent = 0; sent < 500 && !held; sent++) {
    const taken = run.process.stdin.write('x\n'.repeat(50_000));
    if (!taken) held = run.process.stdin.writableLength > 4 << 20;
    await new Promise(setImmediate);
  }
  expect(held).toBe(true);
  expect(residentMb(pid()) - before).toBeLessThan(100);
  run.process.kill('SIGTERM');
  await expectLeft();
});

test('what a call needed is let go with the call', { timeout: counts(60_000, 300_000) }, async () => {
  const pad = 'x'.repeat(200_000);
  const rounds = counts(80, 5000);
  const call = (id: string) => modernRequest(id, 'tools/call', { name: 'echo', arguments: { text: 'hi', pad } });
  const echo = async (id: string) => {
    await run.say(`${JSON.stringify(call(id))}\n`);
    await run.answer(id);
  };
  for (let round = 0; round < 10; round++) await echo(`warm-${round}`);
  const before = await run.heldMb();
  for (let round = 0; round < rounds; round++) await echo(`call-${round}`);
  expect((await run.heldMb()) - before).toBeLessThan((rounds * pad.length) / (4 << 20));
});

test('the end of stdin in the middle of a message: the rest is answered, then it leaves', async () => {
  await run.say('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"jsonrpc":"2.0","id":2,"meth');
  run.process.stdin.end();
  expect((await run.answer(1)).result).toBeDefined();
  expect((await run.complaint()).error?.code).toBe(-32700);
  await expectLeft();
});

test('a client that closes its end of stdout has left', async () => {
  run.process.stdout.destroy();
  await run.say('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'.repeat(10));
  await expectLeft();
});
