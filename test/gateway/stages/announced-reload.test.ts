import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eras, freshGateway, recorder, whoami } from '../../upstreams/links/scoped-gateway.ts';

const start = freshGateway();

describe.each(eras)('a workspace that a client of the %s era has selected follows a reload', (era) => {
  test('to where it lies now, while the session elsewhere keeps its process', async () => {
    const servers = { it: recorder('session', 'modern'), common: recorder('workspace', 'modern') };
    const on = await start({ servers });
    const session = await on.open();
    const meta = { ambit: { workspace: 'one' } };
    const place = await on.connect(session, 'it', era, { meta });
    const elsewhere = await on.connect(session, 'it', era, { meta: { ambit: { workspace: 'two' } } });
    const common = await on.connect(session, 'common', era, { meta });
    const before = { place: await whoami(place), elsewhere: await whoami(elsewhere), common: await whoami(common) };
    const [one, two] = [join(on.folder, 'moved'), join(on.folder, 'two')];
    mkdirSync(one);
    const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const }, servers };
    await on.gateway.reload({ ...config, workspaces: { one: { path: one }, two: { path: two } } });
    for (const [client, was] of [
      [place, before.place],
      [common, before.common],
    ] as const) {
      const now = await whoami(client);
      expect(now.told['AMBIT_WORKSPACE_PATH']).toBe(one);
      expect(now.pid).not.toBe(was.pid);
    }
    expect((await whoami(elsewhere)).pid).toBe(before.elsewhere.pid);
    await on.gateway.reload({ ...config, workspaces: { one: { path: one, trust: 'sandboxed' }, two: { path: two } } });
    // A handshake-era client was opened in the workspace and goes nowhere else. In the modern era each request announces
    // for itself, and works without a workspace.
    const expectLost = async () => {
      if (era === 'modern') expect(await whoami(place)).toMatchObject({ told: { AMBIT_WORKSPACE_ID: '' } });
      else expect(await place.call('whoami')).toMatch(/^WORKSPACE_NOT_FOUND: .*: "two"\.$/);
    };
    await expectLost();
    await on.gateway.reload({ ...config, workspaces: { two: { path: two } } });
    await expectLost();
    expect((await whoami(elsewhere)).told['AMBIT_WORKSPACE_ID']).toBe('two');
  });

  test('a server that may not be used there is not there', async () => {
    const on = await start({ servers: { it: recorder('shared', 'modern') } });
    const session = await on.open();
    const there = await on.connect(session, 'it', era, { meta: { ambit: { workspace: 'one' } } });
    const nowhere = await on.connect(session, 'it', era);
    const { pid } = await whoami(there);
    const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const } };
    const one = { path: join(on.folder, 'one'), capabilities: { servers: 'none' as const } };
    await on.gateway.reload({ ...config, servers: { it: recorder('shared', 'modern') }, workspaces: { one } });
    expect(await there.call('whoami')).toContain('SERVER_NOT_AVAILABLE');
    expect((await whoami(nowhere)).pid).toBe(pid);
  });
});
