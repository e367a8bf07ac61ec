import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { proof } from '../../proof.ts';
import { runAmbit, type ServeProcess, startServe } from '../start-ambit.ts';

let folder: string;
let env: NodeJS.ProcessEnv;
const running: ServeProcess[] = [];
const configFile = (name: string) => join(folder, name, 'ambit.yaml');
const listed = () => readdirSync(join(folder, 'home/.local/state/ambit/run')).filter((name) => name.endsWith('.json'));

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-listed-'));
  for (const name of ['home', 'one', 'two']) mkdirSync(join(folder, name), { mode: 0o700 });
  for (const name of ['one', 'two']) writeFileSync(configFile(name), 'version: 1\n');
  env = { HOME: join(folder, 'home'), XDG_RUNTIME_DIR: '', XDG_STATE_HOME: '', AMBIT_CONFIG: '', AMBIT_DATA_DIR: '' };
});
afterAll(async () => {
  await Promise.all(running.map((each) => each.stop('SIGKILL')));
  rmSync(folder, { recursive: true, force: true });
});

async function serve(name: string): Promise<ServeProcess> {
  const serving = await startServe(['--config', configFile(name)], env);
  running.push(serving);
  return serving;
}

const used = (name: string, { pid }: ServeProcess) =>
  `ambit: using the running gateway of ${configFile(name)} (pid ${pid})\n`;

it('ambit user add reaches the gateway that runs, asks where several do, and never takes a killed one', async () => {
  const one = await serve('one');
  expect(await runAmbit(['user', 'add', 'ada'], env)).toMatchObject({ code: 0, stderr: used('one', one) });
  const known = await runAmbit(['user', 'list', '--json', '--config', configFile('one')], env);
  expect(JSON.parse(known.stdout)).toMatchObject({ users: [{ name: 'ada' }] });
  expect(known.stderr).toBe('');

  const two = await serve('two');
  const several = await runAmbit(['user', 'add', 'eve'], env);
  expect(several).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('2 gateways are running') });
  for (const [name, { pid }] of [['one', one] as const, ['two', two] as const])
    expect(several.stderr).toContain(`  --config ${configFile(name)}  (pid ${pid}, since `);

  await one.stop('SIGKILL');
  expect(listed()).toHaveLength(2);
  expect(await runAmbit(['user', 'list'], env)).toMatchObject({ code: 0, stderr: used('two', two) });
  expect(await two.stop('SIGTERM')).toBe(0);
  expect(listed()).toHaveLength(1);
});

it.runIf(proof)('a gateway is listed only while it listens, whatever ends it', async () => {
  const two = await serve('two');
  // A gateway that cannot listen is not listed.
  const port = new URL(two.url).port;
  const failed = await runAmbit(['serve', '--port', port, '--config', configFile('one')], env);
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot listen') });
  expect(await runAmbit(['user', 'list'], env)).toMatchObject({ code: 0, stderr: used('two', two) });

  expect(await two.stop('SIGTERM')).toBe(0);
  expect(listed()).toEqual([]);
  const alone = await runAmbit(['user', 'list'], env);
  expect(alone).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^ambit: no gateway is running; using the .*\n$/),
  });
  const next = await serve('two');
  expect(listed()).toHaveLength(1);
  expect(await next.stop('SIGINT')).toBe(0);
  expect(listed()).toEqual([]);
});
