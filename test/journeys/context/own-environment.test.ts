import { mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { counts } from '../../proof.ts';
import { taggedProcesses } from '../../sandbox/tagged-processes.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-context-'));
const dataDir = join(folder, 'data');
const garden = join(folder, 'garden');
const kitchen = join(folder, 'kitchen');
const secrets = ['AWS_SECRET_ACCESS_KEY', 'AMBIT_SESSION_TOKEN', 'AMBIT_TRUST_LEVEL', 'NODE_OPTIONS'];
let gateway: EmbeddedGateway;

interface Told {
  readonly client: RawClient;
  /** The variables every process of this session must have, beside the common ones. */
  readonly expected: Readonly<Record<string, string>>;
  readonly cwd: string;
}
const sessions: Told[] = [];

async function open(draft: SessionDraft, path: string, era: 'modern' | 'handshake', custom: string): Promise<void> {
  const { id } = await gateway.createSession(draft);
  const context = {
    SESSION_ID: id,
    WORKSPACE_ID: draft.workspaceId ?? '',
    TRUST_LEVEL: 'direct',
    USER_ID: draft.userId ?? 'local',
    AGENT_ID: draft.agentId ?? '',
    WORKSPACE_PATH: path,
  };
  const expected = Object.fromEntries(
    ['AMBIT', 'PARACHUTE'].flatMap((prefix) => Object.entries(context).map(([n, value]) => [`${prefix}_${n}`, value])),
  );
  sessions.push({
    client: await createRawClient(gateway.connect(id, 'recorder'), era),
    expected: { ...expected, CUSTOM: custom, KEPT: 'as it is' },
    cwd: path === '' ? join(dataDir, 'run', id) : path,
  });
}

beforeAll(async () => {
  for (const name of secrets) vi.stubEnv(name, name === 'NODE_OPTIONS' ? '' : 'host-secret');
  gateway = await createQuietGateway(dataDir, {
    sessions: { defaultTrust: 'direct' },
    quotas: { session: { concurrentCalls: 1000 } },
    context: { envPrefixes: ['AMBIT', 'PARACHUTE'] },
    servers: {
      recorder: { ...stdioRecorder, env: { CUSTOM: 'configured', KEPT: 'as it is' } },
    },
    workspaces: {
      garden: { path: garden, create: true, env: { recorder: { CUSTOM: 'of the garden' } } },
      kitchen: { path: kitchen, create: true, env: { other: { CUSTOM: 'of another server' } } },
    },
  });
  await open({ workspaceId: 'garden', userId: 'ada', agentId: 'coder' }, garden, 'modern', 'of the garden');
  await open({ workspaceId: 'kitchen', userId: 'bob' }, kitchen, 'handshake', 'configured');
  await open({ userId: 'ada', agentId: 'reviewer' }, '', 'modern', 'configured');
});

afterAll(async () => {
  for (const { client } of sessions) await client.close();
  await gateway.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function withoutHost(environment: Record<string, string>): Record<string, string> {
  const { PATH, HOME, LANG, TMPDIR, AMBIT_JWKS, PARACHUTE_JWKS, ...rest } = environment;
  const { AMBIT_CONTEXT_KEY_FILE, PARACHUTE_CONTEXT_KEY_FILE, ...told } = rest;
  expect(AMBIT_CONTEXT_KEY_FILE).toBe(join(TMPDIR ?? '', 'context-key.json'));
  expect(PARACHUTE_CONTEXT_KEY_FILE).toBe(AMBIT_CONTEXT_KEY_FILE);
  expect(JSON.parse(AMBIT_JWKS ?? '')).toMatchObject({ keys: [{ kty: 'OKP', crv: 'Ed25519' }] });
  expect(PARACHUTE_JWKS).toBe(AMBIT_JWKS);
  expect({ PATH, HOME }).toEqual({ PATH: process.env['PATH'], HOME: process.env['HOME'] });
  expect(TMPDIR?.startsWith(dataDir)).toBe(true);
  return told;
}

test('P8: in parallel, each process has exactly the environment of its own session', async () => {
  const calls = Array.from({ length: counts(300, 1000) }, async (_, i) => {
    const { client, expected } = sessions[i % sessions.length] as Told;
    const environment = JSON.parse(await client.call('environment')) as Record<string, string>;
    expect(withoutHost(environment)).toEqual(expected);
  });
  await Promise.all(calls);
});

test('P1: the system shows the same environment of each process, and its working directory', () => {
  const pids = taggedProcesses(dataDir).filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('recorder/stdio.js'),
  );
  const found = pids.map((pid) => {
    const lines = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
    const told = withoutHost(
      Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])),
    );
    return { told, cwd: readlinkSync(`/proc/${pid}/cwd`) };
  });
  expect(found).toHaveLength(sessions.length);
  for (const { expected, cwd } of sessions) expect(found).toContainEqual({ told: expected, cwd });
});

test('P4: nothing that the agent sends changes the environment', async () => {
  const { client, expected } = sessions[0] as Told;
  const forged = { AMBIT_SESSION_ID: 'forged', env: { AMBIT_TRUST_LEVEL: 'direct' }, session: 'forged' };
  const { result } = await client.request('tools/call', { name: 'environment', arguments: forged, env: forged });
  const content = (result?.['content'] ?? []) as { readonly text: string }[];
  expect(withoutHost(JSON.parse(content[0]?.text ?? '{}') as Record<string, string>)).toEqual(expected);
});
