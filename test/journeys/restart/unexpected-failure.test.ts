import { on } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { startAmbit } from '../start-ambit.ts';

test('an error that no code handles is logged and does not end the gateway', async () => {
  const fails = "process.on('SIGUSR2',()=>{Promise.reject(new Error('nobody waits for this'))})";
  const ambit = await startAmbit({}, { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fails)}` });
  onTestFinished(async () => void (await ambit.stop()));
  const lines = on(createInterface({ input: ambit.process.stderr! }), 'line', { close: ['close'] });
  ambit.process.kill('SIGUSR2');
  for await (const [line] of lines) if (String(line).includes('unexpected failure: error="Error: nobody waits')) break;
  expect((await fetch(`${ambit.url}/healthz`)).status).toBe(200);
  expect(await ambit.stop()).toBe(0);
});
