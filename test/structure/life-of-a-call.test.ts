import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session as Inspector, type Profiler } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { until } from '../sandbox/tagged-processes.ts';
import { repository } from './source-files.ts';

const file = join(repository, 'docs/explanation/life-of-a-call.md');
const page = readFileSync(file, 'utf8');
const block = (language: string) =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)\n\`\`\`$`, 'gm'))].map((match) => match[1] as string);
/** The numbered steps, each with the function and the file that it names. */
const steps = page
  .split(/^(?=\d+\. )/m)
  .slice(1)
  .map((text) => {
    const [, name = '', path = ''] = /\[`(\w+)`\]\(([^)]+)\)/.exec(text) ?? [];
    return { number: Number.parseInt(text, 10), name, source: resolve(dirname(file), path) };
  });

let folder: string;
let gateway: EmbeddedGateway;
let stages: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-life-'));
  gateway = await createGateway({
    config: parse(block('yaml')[0] as string) as ConfigInput,
    dataDir: folder,
    log: { info() {}, warn() {} },
    watchStages: (stage, step) => void (step === 'in' && stages.push(stage)),
  });
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Names of the functions of our build that ran meanwhile, by the path of their source. */
async function functionsRunBy(work: () => Promise<void>): Promise<Map<string, Set<string>>> {
  const inspector = new Inspector();
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await inspector.post('Profiler.takePreciseCoverage');
  await work();
  const { result } = (await inspector.post('Profiler.takePreciseCoverage')) as Profiler.TakePreciseCoverageReturnType;
  inspector.disconnect();
  return new Map(
    result.map(({ url, functions }) => [
      url.replace(/^file:\/\/(.*)\/build\/(.*)\.js$/, '$1/src/$2.ts'),
      new Set(functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).map(({ functionName }) => functionName)),
    ]),
  );
}

test('the request of the page is answered as it says, by the steps that it names', async () => {
  const { id, token } = await gateway.createSession({ userId: 'ada', workspaceId: 'garden' });
  const { url } = await gateway.listen({ port: 0 });
  const [head = '', body = ''] = (block('http')[0] as string).split('\n\n');
  const headers = head
    .split('\n')
    .slice(1)
    .map((line) => line.replace('ambs_…', token).split(': ') as [string, string]);
  const send = async () => {
    return (await fetch(`${url}/mcp`, { method: 'POST', headers, body })).text();
  };
  await send();
  stages = [];
  let answer = '';
  const ran = await functionsRunBy(async () => {
    answer = await send();
  });

  const [shown, line = ''] = block('json');
  expect(answer).toBe(shown);
  const written = () =>
    readFileSync(join(folder, 'journal/journal.jsonl'), 'utf8')
      .split('\n')
      .filter((text) => text.includes(id) && text.includes('"call"'));
  await until(
    () => written().length === 2,
    5000,
    () => 'the journal is not written',
  );
  const { time, id: exchange, sessionId, ...rest } = JSON.parse(line) as Record<string, unknown>;
  expect([time, exchange, sessionId]).toEqual(['…', '…', '…']);
  expect(JSON.parse(written()[1] as string)).toMatchObject({ time: expect.any(String), sessionId: id, ...rest });

  expect(steps.map(({ number }) => number)).toEqual(steps.map((_, index) => index + 1));
  const ofStages = steps.filter(({ source }) => source.includes('/gateway/stages/'));
  expect(ofStages.map(({ name }) => name)).toEqual(stages);
  for (const { number, name, source } of steps) {
    expect(existsSync(source), `step ${number}: ${source}`).toBe(true);
    // A stage is an object with the name of its factory; its function is called by its direction.
    const names = ran.get(source) ?? new Set();
    const has = ofStages.some((each) => each.number === number) ? names.size > 0 : names.has(name);
    expect(has, `step ${number}: ${name} of ${source} did not run`).toBe(true);
  }
});
