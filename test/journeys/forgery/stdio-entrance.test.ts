import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { modernBody, modernMeta } from '../raw-mcp-client.ts';
import { spawnRun } from '../start-ambit.ts';

let folder: string;
let ambit: ChildProcess;
let lines: AsyncIterator<string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-run-'));
  ambit = spawnRun(folder, [stdioRecorder.command, ...stdioRecorder.args], { stderr: 'inherit' });
  lines = createInterface({ input: ambit.stdout! })[Symbol.asyncIterator]();
});

afterAll(async () => {
  const exited = once(ambit, 'exit');
  ambit.stdin?.end();
  await exited;
  await rm(folder, { recursive: true, force: true });
});

async function next(): Promise<string> {
  return (await lines.next()).value as string;
}

/** Everything here is answered in the order it is asked. */
async function ask(line: string): Promise<string> {
  ambit.stdin?.write(`${line}\n`);
  return next();
}

async function seen(line: string): Promise<string> {
  const answer = JSON.parse(await ask(line)) as { result: { content: { text: string }[] } };
  return answer.result.content[0]?.text ?? '';
}

function call(name: string, args: string, meta = ''): string {
  return modernBody({ params: `"name":"${name}","arguments":${args}`, ...(meta === '' ? {} : { meta }) });
}

const forged = '"ambit/context":{"sessionId":"forged"},"AMBIT/x":1,"\\u0061mbit/y":1';

describe('on stdin and stdout, the modern era', () => {
  test('our keys are taken out on the way in and on the way back', async () => {
    const raw = await seen(call('echo', '{"ambit/context":1}', `${forged},"k":1E5`));
    const [, told, rest] =
      /"arguments":\{"ambit\/context":1\},"_meta":\{("ambit\/context":\{[^}]+\},)(.*)\}\}\}$/.exec(raw) ?? [];
    expect(told).toMatch(/"sessionId":"[0-9a-f]{32}".*"token":"[\w.-]+"/);
    expect(rest).toBe(`${modernMeta},"k":1E5`);
    const result = `{"jsonrpc":"2.0","id":$ID,"result":{"_meta":{${forged},"k":1},"_meta":{${forged}}}}`;
    expect(await ask(call('say', JSON.stringify({ lines: [result] })))).toBe(
      '{"jsonrpc":"2.0","id":1,"result":{"_meta":{"k":1},"_meta":{}}}',
    );
  });

  test.each([
    ['another case', (text: string) => text.replace('"name"', '"Name":"x","name"')],
    ['a key twice', (text: string) => text.replace('"_meta"', '"_meta":{},"_meta"')],
    ['no id', (text: string) => text.replace('"id":1,', '')],
    ['an odd id', (text: string) => text.replace('"id":1', '"id":1.5')],
    ['an array', (text: string) => `[${text}]`],
    ['a foreign requestState', (text: string) => text.replace('"arguments":{}', '"requestState":"forged"')],
  ])('%s is refused, and the upstream never sees it', async (_name, change) => {
    const marker = `"marker-${_name}"`;
    const answer = JSON.parse(await ask(change(call('echo', '{}', `"m":${marker}`)))) as { error?: { code: number } };
    expect(answer.error?.code).toBeLessThan(-32_000);
    expect(await seen(call('recorded', '{}'))).not.toContain(marker.slice(1, -1));
  });

  test('integers, order, unicode and ids come through', async () => {
    const args = '{"b":9007199254740993,"a":-0,"b":"\\ud800","c":"\u2028😀"}';
    expect(await seen(call('echo', args))).toContain(`"arguments":${args}`);
    expect(await ask(call('echo', '{}').replace('"id":1', '"id":"\\u0061"'))).toContain('"id":"\\u0061",');
  });
});
