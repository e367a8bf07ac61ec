import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { ambitBin, type RunningAmbit, startAmbit } from '../start-ambit.ts';

/** A client from npm, and what its list of servers says of one that it has reached. */
interface ClientProgram {
  readonly client: string;
  /** The package with the version that was tried. */
  readonly spec: string;
  readonly bin: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly connected: RegExp;
}

const programs: readonly ClientProgram[] = [
  {
    client: 'claude-code',
    spec: '@anthropic-ai/claude-code@2.1.197',
    bin: 'claude',
    connected: /ambit: .*✔ Connected/,
  },
  {
    client: 'gemini',
    spec: '@google/gemini-cli@0.61.0',
    bin: 'gemini',
    env: { GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    connected: /ambit: .*- Connected/,
  },
  // Its list reads the file, and starts no server.
  { client: 'codex', spec: '@openai/codex@0.166.0', bin: 'codex', connected: /^ambit .*enabled/m },
  { client: 'opencode', spec: 'opencode-ai@1.18.33', bin: 'opencode', connected: /✓.*ambit.*connected/ },
];

// Programs of other authors, fetched from npm.
describe.runIf(proof)('clients from npm reach Ambit with what "ambit client" wrote', () => {
  let home: string;
  let gateway: RunningAmbit;
  const run = async (command: string, args: readonly string[], env: Record<string, string> = {}) => {
    const { stdout, stderr } = await promisify(execFile)(command, args, {
      cwd: home,
      env: { PATH: process.env['PATH'], HOME: home, AMBIT_CONFIG: join(home, 'etc', 'ambit.yaml'), ...env },
    });
    return stdout + stderr;
  };

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'ambit-client-programs-'));
    mkdirSync(join(home, 'etc'));
    writeFileSync(join(home, 'etc', 'ambit.yaml'), 'version: 1\n');
    writeFileSync(join(home, 'package.json'), '{}');
    const specs = programs.map(({ spec }) => spec);
    execFileSync('npm', ['install', '--no-audit', '--no-fund', ...specs], { cwd: home, stdio: 'ignore' });
    gateway = await startAmbit({});
  }, 600_000);
  afterAll(async () => {
    await gateway.stop();
    rmSync(home, { recursive: true, force: true });
  });

  test.for(programs)('$client', { timeout: 180_000 }, async ({ client, bin, env, connected }) => {
    const list = (more: Record<string, string> = {}) =>
      run(join(home, 'node_modules', '.bin', bin), ['mcp', 'list'], { ...env, ...more });
    await run(process.execPath, [ambitBin, 'client', client, '--write', '--yes', '--data-dir', join(home, 'own')]);
    expect(await list()).toMatch(connected);
    await run(process.execPath, [ambitBin, 'client', client, '--write', '--yes', '--url', gateway.url]);
    const { token } = await gateway.session();
    expect(await list({ AMBIT_SESSION_TOKEN: token })).toMatch(connected);
  });
});
