import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { listenControl } from '../../src/entrances/control/listen.ts';
import { withLongLock } from '../../src/file-lock.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';

// Nobody sends a request here, so the gateway is not asked anything.
const noGateway = { log: { info() {}, warn() {} } } as unknown as Gateway;

test('a gateway does not judge the socket of another that is just being made', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-control-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'control.sock');
  const other = createServer();
  const opening = await withLongLock(path, 10_000, async () => {
    await new Promise<void>((resolve) => other.listen(path, resolve));
    // Without the lock it would find the socket in use during this pause, and give up.
    const started = listenControl(noGateway, path).then(
      (control) => control,
      (error: Error) => error,
    );
    await delay(100);
    await new Promise((resolve) => other.close(resolve));
    return { started };
  });
  const control = await opening.started;
  expect(control).not.toBeInstanceOf(Error);
  await expect(listenControl(noGateway, path)).rejects.toThrow(/Another gateway is already running/);
  if (!(control instanceof Error)) await control.close();
});
