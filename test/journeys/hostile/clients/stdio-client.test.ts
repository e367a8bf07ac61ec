import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { proof } from '../../../proof.ts';
import { taggedProcesses } from '../../../sandbox/tagged-processes.ts';
import { initializeRequest, modernRequest } from '../../json-mcp-client.ts';
import { waitUntilNothingRuns } from '../../start-probed-ambit.ts';
import { measureGrowth } from '../start-watched-ambit.ts';
import { type Run, startRun } from './start-run.ts';

let run: Run;

beforeEach(async () => {
  run = await startRun();
  await run.say(`${JSON.stringify(initializeRequest())}\n`);
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
  // On a busy machine its reaper sweeps up a little longer.
  await waitUntilNothingRuns(join(run.folder, 'data'));
  expect(run.errors()).toBe('');
}

/** In the proof only: while the work goes on, its memory grows by less than this. */
async function expectMemoryWithin(mb: number, work: Promise<unknown>): Promise<void> {
  if (!proof) await work;
  else expect(await measureGrowth(pid(), work)).toBeLessThan(mb);
}

test('a line that never ends: the memory stays where it was (proof), and the client is let go', async () => {
  const block = Buffer.alloc(1 << 20, 'x');
  const left = once(run.process, 'exit');
  let over = false;
  void left.then(() => {
    over = true;
  });
  const pouring = (async () => {
    for (let poured = 1; !over; poured++) {
      await Promise.race([run.say(block), left]);
      // A write into a closed pipe fails without any wait; the exit is heard of in a later turn.
      await new Promise(setImmediate);
      // Far over the limit it goes on slowly, to spare the processor. In the proof it never slows down.
      if (!proof && poured > 24) await Promise.race([pause(20), left]);
    }
  })();
  await expectMemoryWithin(100, pouring);
  await expectLeft();
});

test('a client that writes and never reads is held back, and does not keep Ambit from leaving', async () => {
  run.process.stdout.pause();
  // Each of these lines is answered with an error longer than itself. What is not taken waits on our side.
  const writing = (async () => {
    const isHeld = () => run.process.stdin.writableLength > 4 << 20;
    for (let sent = 0; sent < 500 && !isHeld(); sent++) {
      run.process.stdin.write('x\n'.repeat(50_000));
      await new Promise(setImmediate);
    }
    expect(isHeld()).toBe(true);
  })();
  await expectMemoryWithin(100, writing);
  run.process.kill('SIGTERM');
  await expectLeft();
});

test.runIf(proof)('memory of a call is released with the call', async () => {
  const pad = 'x'.repeat(200_000);
  const rounds = 5000;
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

test('a client that closes stdout counts as disconnected', async () => {
  run.process.stdout.destroy();
  await run.say('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'.repeat(10));
  await expectLeft();
});
