import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ambitBin } from '../../journeys/start-ambit.ts';
import { findProgram } from '../../needs/program.ts';

/** Colours, and what a terminal needs at the end of a line. */
const control = /\u001b\[[\d;?]*[A-Za-z]|\r/g;

test.runIf(findProgram('script'))(
  'on a terminal "ambit serve" prints a link that signs in once, and Ctrl-C stops it',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ambit-serve-'));
    const config = join(folder, 'ambit.yaml');
    await writeFile(config, 'version: 1\n');
    const flags = ['--port', '0', '--config', config, '--data-dir', join(folder, 'data')];
    const words = [process.execPath, ambitBin, 'serve', ...flags].map((word) => `'${word}'`).join(' ');
    // Without exec, dash stays in between, and Ctrl-C ends it before Ambit.
    const command = `exec ${words}`;
    const terminal = spawn(findProgram('script') as string, ['-qec', command, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const left = once(terminal, 'exit');
    try {
      let shown = '';
      const [, origin, code] = await new Promise<RegExpExecArray>((resolve, reject) => {
        terminal.stdout.on('data', (chunk: Buffer) => {
          shown += chunk;
          const link =
            /^Open the console: (http:\/\/127\.0\.0\.1:\d+)\/#code=(\S+) .*Ctrl-C stops the gateway\.$/ms.exec(
              shown.replace(control, ''),
            );
          if (link !== null) resolve(link);
        });
        void left.then(() => reject(new Error(`It has ended: ${shown}`)));
      });
      const redeem = async () => {
        const headers = { 'content-type': 'application/json' };
        const answer = await fetch(`${origin}/api/v1/consoles`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ code }),
        });
        return { status: answer.status, body: (await answer.json()) as Record<string, string> };
      };
      const first = await redeem();
      expect(first).toMatchObject({ status: 201, body: { role: 'admin' } });
      const headers = { authorization: `Bearer ${first.body['token']}` };
      expect((await fetch(`${origin}/api/v1/sessions`, { headers })).status).toBe(200);
      expect(await redeem()).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
      terminal.stdin.write('\u0003');
      expect(await left).toEqual([0, null]);
    } finally {
      terminal.kill();
      await left;
      await rm(folder, { recursive: true, force: true });
    }
  },
);
