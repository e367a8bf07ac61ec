import { chmodSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { counts, proof } from '../proof.ts';
import { taggedProcesses, until } from '../sandbox/tagged-processes.ts';
import {
  callModern,
  modernHeaders,
  modernRequest,
  openClient,
  type RpcMessage,
  readOutcome,
} from './json-mcp-client.ts';
import { requestControl } from './request-control.ts';
import { type RunningAmbit, repository, startAmbit } from './start-ambit.ts';
import { maxWaitMs } from './start-probed-ambit.ts';
import { waitUntilAtMost } from './wait-until.ts';

const script = join(repository, 'test/fixtures/reloaded/server.js');
const usableMs = 1000;
/** Short enough that each client has calls under way in every round. */
const pauseMs = counts(20, 5);

function server(mark: string, era: 'modern' | 'handshake'): Record<string, unknown> {
  return { command: process.execPath, args: [script], env: { MARK: mark, ERA: era } };
}

const steady = { 'old-era': server('old-era', 'handshake'), 'new-era': server('new-era', 'modern') };
// So many calls are more than a session may make in a minute.
const quotas = { session: { callsPerMinute: 1_000_000 } };
let ambit: RunningAmbit;
let token: string;
let session: string;
let said = '';

beforeAll(async () => {
  ambit = await startAmbit({ servers: steady, quotas });
  ambit.process.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  ({ token, id: session } = await ambit.session());
});

afterAll(async () => {
  await ambit?.stop();
});

/** Puts the text in the file's place in one step, and waits until Ambit has said what it made of it. */
function rewrite(text: string, file = join(ambit.folder, 'etc', 'ambit.yaml')): Promise<string> {
  return answerTo(() => {
    writeFileSync(`${file}.next`, text);
    renameSync(`${file}.next`, file);
  });
}

/** Waits for the message of Ambit about its configuration after this change. */
async function answerTo(act: () => void): Promise<string> {
  const from = said.length;
  act();
  const answer = () => /configuration rejected|configuration reloaded.*/.exec(said.slice(from))?.[0];
  await until(
    () => answer() !== undefined,
    maxWaitMs,
    () => `an answer to the new configuration: ${said.slice(from)}`,
  );
  return answer() as string;
}

function configure(servers: Record<string, unknown>, more: Record<string, unknown> = {}): Promise<string> {
  return rewrite(JSON.stringify({ version: 1, servers, quotas, ...more }));
}

const projectFile = (name: string) => JSON.stringify({ mcpServers: { [name]: server(name, 'modern') } });
const callOf = async (name: string) => readOutcome(await callModern(ambit.mcp(name), token, 'mark'));

test('an include that a reload adds is read, and watched from then on', async () => {
  const folder = join(ambit.folder, 'project');
  mkdirSync(folder);
  const file = join(folder, '.mcp.json');
  writeFileSync(file, projectFile('first'));
  expect(await callOf('first')).toBe('!SERVER_NOT_AVAILABLE');
  expect(await configure(steady, { include: [file] })).toContain('first');
  // The servers of an included file are there, and wait for the approval of the operator.
  expect(await callOf('first')).toBe('!SERVER_NOT_APPROVED');
  expect(await rewrite(projectFile('second'), file)).toContain('first, second');
  expect(await callOf('first')).toBe('!SERVER_NOT_AVAILABLE');
  expect(await callOf('second')).toBe('!SERVER_NOT_APPROVED');
  await configure(steady);
});

test('SIGHUP makes a running gateway read its configuration again', async () => {
  const folder = join(ambit.folder, 'later');
  const file = join(folder, '.mcp.json');
  // The folder does not exist yet, so nothing there is watched: only the signal can tell of the file.
  await configure(steady, { include: [file] });
  mkdirSync(folder);
  writeFileSync(file, projectFile('signalled'));
  expect(await answerTo(() => process.kill(ambit.pid, 'SIGHUP'))).toContain('signalled');
  expect(await callOf('signalled')).toBe('!SERVER_NOT_APPROVED');
  await configure(steady);
});

test('S2: a configuration that another user can write is not taken over', async () => {
  const file = join(ambit.folder, 'etc', 'ambit.yaml');
  const planted = { ...steady, planted: server('planted', 'modern') };
  const said = await answerTo(() => {
    writeFileSync(`${file}.next`, JSON.stringify({ version: 1, servers: planted, quotas }));
    chmodSync(`${file}.next`, 0o666);
    renameSync(`${file}.next`, file);
  });
  expect(said).toBe('configuration rejected');
  expect(await callOf('planted')).toBe('!SERVER_NOT_AVAILABLE');
  await configure(steady);
});

test('each problem of a rejected configuration is a line of its own in the log', async () => {
  const from = said.length;
  await rewrite('version: 1\nserverz: {}\nlisten: { prot: 1 }\n');
  await until(
    () => said.slice(from).includes('listen.prot'),
    maxWaitMs,
    () => said.slice(from),
  );
  const lines = said.slice(from).split('\n');
  expect(lines).toContainEqual(
    expect.stringMatching(/^ambit: {3}error \| .*serverz: unknown key; did you mean "servers"\?$/),
  );
  expect(lines).toContainEqual(expect.stringMatching(/^ambit: {3}error \| .*listen\.prot: unknown key/));
  await configure(steady);
});

interface Loaded {
  readonly calls: number;
  readonly failures: string[];
  stop(): Promise<void>;
}

/** Calls again and again until stopped; whatever is not an answer of that server's is a failure. */
function load(name: string, call: () => Promise<string>, fits: (answer: string) => boolean): Loaded {
  let on = true;
  let calls = 0;
  const failures: string[] = [];
  const running = (async () => {
    while (on) {
      const answer = await call().catch((error: Error) => `!${error.message}`);
      calls++;
      if (!fits(answer)) failures.push(`${name}: ${answer}`);
      await delay(pauseMs);
    }
  })();
  return {
    get calls() {
      return calls;
    },
    failures,
    async stop() {
      on = false;
      await running;
    },
  };
}

async function clients(): Promise<Loaded[]> {
  const all = `${ambit.url}/mcp`;
  const loads: Loaded[] = [];
  const fits = (name: string) => (answer: string) => answer === name || answer.startsWith(`${name} `);
  for (const name of Object.keys(steady)) {
    const one = ambit.mcp(name);
    const onAll = await openClient(all, token);
    const onOne = await openClient(one, token);
    const tool = `${name}__mark`;
    loads.push(
      load(`modern /mcp ${name}`, async () => readOutcome(await callModern(all, token, tool)), fits(name)),
      load(`modern /mcp/${name}`, async () => readOutcome(await callModern(one, token, 'mark')), fits(name)),
      load(`handshake /mcp ${name}`, async () => readOutcome(await onAll.call(tool)), fits(name)),
      load(`handshake /mcp/${name}`, async () => readOutcome(await onOne.call('mark')), fits(name)),
    );
  }
  return loads;
}

/** Resolves when each of them has had one more answer. */
async function untilAllCall(loads: readonly Loaded[]): Promise<void> {
  const before = loads.map(({ calls }) => calls);
  await until(
    () => loads.every(({ calls }, index) => calls > (before[index] ?? 0)),
    maxWaitMs,
    () => `calls: ${loads.map(({ calls }) => calls)}`,
  );
}

/** Everything said on a stream so far; resolves when it stands. */
async function listening(url: string, headers: Record<string, string>, body?: string) {
  const heard: string[] = [];
  let end = () => {};
  await new Promise<void>((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const authorization = `Bearer ${token}`;
    const asked = request(
      url,
      { method, headers: { accept: 'text/event-stream, application/json', authorization, ...headers } },
      (response) => {
        response.setEncoding('utf8').on('data', (text: string) => {
          for (const line of text.split('\n')) {
            if (line.startsWith('data: {')) heard.push((JSON.parse(line.slice(6)) as RpcMessage).method ?? 'answer');
          }
        });
        response.on('error', () => {});
        if (response.statusCode === 200) resolve();
        else reject(new Error(`no stream: ${response.statusCode}`));
      },
    );
    asked.on('error', () => {});
    asked.end(body);
    end = () => asked.destroy();
  });
  return { heard, end };
}

async function listeners() {
  const all = `${ambit.url}/mcp`;
  const client = await openClient(all, token);
  await client.call('old-era__mark');
  const filter = { notifications: { toolsListChanged: true } };
  const modern = await listening(
    all,
    { 'content-type': 'application/json', ...modernHeaders('subscriptions/listen') },
    JSON.stringify(modernRequest('listen', 'subscriptions/listen', filter)),
  );
  return { modern, handshake: await listening(all, client.headers) };
}

const changes = (stream: { heard: string[] }) =>
  stream.heard.filter((method) => method === 'notifications/tools/list_changed').length;

test('reloads under load: no failed call, no leaked process, and everybody is told', async () => {
  const rounds = counts(5, 200);
  const streams = await listeners();
  const loads = await clients();
  const usable: number[] = [];
  let refused = 0;
  let told = 0;
  for (let round = 1; round <= rounds; round++) {
    await untilAllCall(loads);
    const before = { modern: changes(streams.modern), handshake: changes(streams.handshake) };
    const life = { ...steady, 'old-era': server(`old-era ${round}`, 'handshake') };
    switch (round % 5) {
      case 0:
        expect(await rewrite('version: 1\nservers: [')).toBe('configuration rejected');
        refused++;
        continue;
      case 1: {
        expect(
          await configure({ ...steady, fresh: server('fresh', round % 2 === 0 ? 'modern' : 'handshake') }),
        ).toContain('fresh');
        const began = performance.now();
        expect(readOutcome(await callModern(`${ambit.url}/mcp`, token, 'fresh__mark'))).toBe('fresh');
        usable.push(performance.now() - began);
        break;
      }
      case 2:
        // The server added last round goes, while a call to it is under way.
        {
          const [one, other, go] = ['one', 'other', 'go'].map((name) => join(ambit.folder, `${name}-${round}`));
          const slow = callModern(`${ambit.url}/mcp`, token, 'fresh__slow', { begun: one, until: go });
          const handshake = await openClient(ambit.mcp('fresh'), token);
          const slower = handshake.call('slow', { begun: other, until: go });
          const under = () => existsSync(one!) && existsSync(other!);
          await until(under, maxWaitMs, () => 'two calls under way');
          expect(await configure(steady)).toContain('fresh');
          expect(readOutcome(await callModern(`${ambit.url}/mcp`, token, 'fresh__mark'))).toBe('!SERVER_NOT_AVAILABLE');
          writeFileSync(go!, '');
          expect([readOutcome(await slow), readOutcome(await slower)]).toEqual(['fresh', 'fresh']);
        }
        break;
      case 3:
        expect(await configure(life)).toContain('old-era');
        expect(readOutcome(await callModern(`${ambit.url}/mcp`, token, 'old-era__mark'))).toBe(`old-era ${round}`);
        break;
      default:
        // An unrelated key: no server is another for it.
        expect(
          await configure(
            { ...steady, 'old-era': server(`old-era ${round - 1}`, 'handshake') },
            { limits: { pendingPerUpstream: 200 + round } },
          ),
        ).toBe('configuration reloaded');
        continue;
    }
    told++;
    await until(
      () => changes(streams.modern) > before.modern && changes(streams.handshake) > before.handshake,
      maxWaitMs,
      () =>
        `list_changed in round ${round}: ${JSON.stringify([before, changes(streams.modern), changes(streams.handshake)])}`,
    );
  }
  await untilAllCall(loads);
  await Promise.all(loads.map((each) => each.stop()));
  const calls = loads.reduce((sum, each) => sum + each.calls, 0);
  const middle = usable.sort((a, b) => a - b)[Math.floor(usable.length / 2)] ?? Number.NaN;
  process.stdout.write(
    `\n${rounds} reloads (${refused} refused), ${calls} calls beside them, ${loads.flatMap((each) => each.failures).length} failed; ` +
      `list_changed heard after each of ${told}; a new server answered after ${middle.toFixed(0)} ms (p50)\n`,
  );
  expect(loads.flatMap((each) => each.failures)).toEqual([]);
  // The middle one of many: a machine that is busy with other things may take longer over some of them.
  if (proof) expect(middle).toBeLessThan(usableMs);

  // One process for each server and era of its clients is left, and none at all once the session is over.
  await configure(steady);
  const lives = () => taggedProcesses(join(ambit.dataDir, 'tmp')).length;
  await waitUntilAtMost(lives, 3, maxWaitMs);
  await requestControl(join(ambit.dataDir, 'control.sock'), 'DELETE', `/api/v1/sessions/${session}`);
  for (const stream of Object.values(streams)) stream.end();
  await waitUntilAtMost(lives, 0, maxWaitMs);
});
