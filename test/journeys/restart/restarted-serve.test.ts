import { once } from 'node:events';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import { connectRawClient, readRefusalCode, readWhoami } from '../abandoned/raw-client.ts';
import { requestControl } from '../request-control.ts';
import { type CreatedSession, runAmbit, startAmbit, startServe } from '../start-ambit.ts';
import { upstreamProgram } from '../start-probed-ambit.ts';

const config = {
  servers: { it: { command: process.execPath, args: [upstreamProgram] } },
  quotas: { session: { totalCalls: 5 } },
};

test('L6, L16: after kill -9 clients of both eras go on, with what their session had and had used', async () => {
  const ambit = await startAmbit(config);
  onTestFinished(async () => void (await ambit.stop('SIGKILL')));
  const places = ['--config', join(ambit.folder, 'etc', 'ambit.yaml'), '--data-dir', ambit.dataDir];
  const control = join(ambit.dataDir, 'control.sock');
  const open = (name: string) =>
    requestControl<CreatedSession>(control, 'POST', '/api/v1/sessions', {
      trustLevel: 'direct',
      name,
      metadata: { task: name },
    });
  const [modern, handshake] = [await open('modern'), await open('handshake')];
  const visitors = [
    await connectRawClient('modern', { url: ambit.mcp('it'), token: modern.token }),
    await connectRawClient('handshake', { url: ambit.mcp('it'), token: handshake.token }),
  ] as const;
  const before = await Promise.all(visitors.map((visitor) => visitor.whoami()));
  for (const visitor of visitors) await visitor.whoami();
  const file = join(ambit.dataDir, 'sessions.db');
  const beside = await openSqliteStore({ file });
  await beside.state.set(modern.id, 'k', { kept: true });
  await beside.marks.put(modern.id, 'delivered', 'yes');
  const exited = once(ambit.process, 'exit');
  ambit.process.kill('SIGKILL');
  await exited;

  // Nobody serves now: commands work on the store itself.
  const shown = await runAmbit(['session', 'show', 'modern', '--json', ...places]);
  expect(JSON.parse(shown.stdout)).toMatchObject({ id: modern.id, metadata: { task: 'modern' } });

  const next = await startServe(places);
  onTestFinished(async () => void (await next.stop('SIGKILL')));
  const url = `${next.url}/mcp/it`;
  const again = [
    await connectRawClient('modern', { url, token: modern.token }),
    await connectRawClient('handshake', { url, token: handshake.token }, {}, visitors[1].transportId),
  ] as const;
  const after = await Promise.all(again.map((visitor) => visitor.whoami()));
  for (const [index, { pid }] of after.entries()) expect(pid).not.toBe(before[index]?.pid);
  // The new process was shaken hands with on behalf of a client that did not do it again.
  expect(after[1]).toMatchObject({ handshakes: 1, initialized: true });
  expect((await beside.state.get(modern.id, 'k'))?.value).toEqual({ kept: true });
  expect(await beside.marks.get(modern.id, 'delivered')).toBe('yes');
  await beside.close();
  // Two calls before, three after: the sixth is one too many.
  for (const visitor of again) {
    expect(readWhoami(await visitor.call('whoami').answered).pid).toBeGreaterThan(0);
    expect(readWhoami(await visitor.call('whoami').answered).pid).toBeGreaterThan(0);
    expect(readRefusalCode(await visitor.call('whoami').answered)).toBe('QUOTA_EXCEEDED');
  }
});
