import { stat } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { callModern, connectHandshake, readToolText } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;

/** Set for the gateway; none of these is an upstream's business. */
const hostSecrets = {
  AWS_SECRET_ACCESS_KEY: 'host-secret',
  GITHUB_TOKEN: 'host-secret',
  AMBIT_SESSION_TOKEN: 'host-secret',
  AMBIT_TRUST_LEVEL: 'direct',
  NODE_EXTRA_CA_CERTS: '',
  LD_LIBRARY_PATH: '/host-secret',
  SSH_AUTH_SOCK: '/host-secret',
  npm_config_token: 'host-secret',
  XDG_RUNTIME_DIR: '/tmp',
};

beforeAll(async () => {
  const configured = { CONFIGURED: 'yes', EMPTY: '', ODD: 'a=b\nc "é"' };
  attacked = await startRecordedGateway(
    {
      servers: {
        pipe: stdioRecorder,
        tube: stdioRecorder,
        told: { ...stdioRecorder, env: configured },
        moved: { ...stdioRecorder, env: { TMPDIR: '/elsewhere' } },
      },
    },
    { ...hostSecrets, LANG: 'C.UTF-8', HOME: '/home/of-the-host' },
  );
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

async function environmentOf(server: string): Promise<Record<string, string>> {
  const text = await readToolText(callModern(attacked.ambit.mcp(server), token, 'environment', '{}'));
  return JSON.parse(text) as Record<string, string>;
}

const told = [
  'AGENT_ID',
  'CONTEXT_KEY_FILE',
  'JWKS',
  'SESSION_ID',
  'TRUST_LEVEL',
  'USER_ID',
  'WORKSPACE_ID',
  'WORKSPACE_PATH',
];
const names = [...told.map((name) => `AMBIT_${name}`), 'HOME', 'LANG', 'PATH', 'TMPDIR'];

test('P1: its context, PATH, HOME, LANG and a TMPDIR of its own, and nothing else', async () => {
  const environment = await environmentOf('pipe');
  expect(Object.keys(environment).sort()).toEqual(names);
  expect(environment).toMatchObject({ HOME: '/home/of-the-host', LANG: 'C.UTF-8', PATH: process.env.PATH });
});

test('the environment holds the configured values unchanged', async () => {
  const { HOME, LANG, PATH, TMPDIR, ...others } = await environmentOf('told');
  const rest = Object.fromEntries(Object.entries(others).filter(([name]) => !name.startsWith('AMBIT_')));
  expect(rest).toEqual({ CONFIGURED: 'yes', EMPTY: '', ODD: 'a=b\nc "é"' });
  expect([HOME, LANG, PATH, TMPDIR].every((value) => value !== undefined)).toBe(true);
});

test('P15: TMPDIR is private: another for every process, for its owner only, and nobody can move it', async () => {
  const client = await connectHandshake(attacked.pipe, token);
  const handshake = JSON.parse(await readToolText(client.call('environment', '{}'))) as Record<string, string>;
  const folders = [
    (await environmentOf('pipe')).TMPDIR,
    (await environmentOf('told')).TMPDIR,
    (await environmentOf('moved')).TMPDIR,
    handshake.TMPDIR,
  ];
  expect(new Set(folders).size).toBe(4);
  for (const folder of folders) {
    expect(folder?.startsWith(attacked.ambit.dataDir)).toBe(true);
    expect((await stat(folder!)).mode & 0o777).toBe(0o700);
  }
});

test('P4: no caller can add to the environment', async () => {
  const meta = '"env":{"LD_PRELOAD":"x"},"ambit/context":{"env":{"A":"b"}}';
  const headers = { 'x-env-ld-preload': 'x', 'mcp-param-path': '/attacker' };
  const fresh = await attacked.open();
  const text = await readToolText(
    callModern(attacked.tube, fresh.token, 'environment', '{"env":{"A":"b"}}', { meta, headers }),
  );
  expect(Object.keys(JSON.parse(text) as object).sort()).toEqual(names);
});
