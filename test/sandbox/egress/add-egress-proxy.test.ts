import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Egress, type EgressRefusal, openEgress } from '../../../src/sandbox/egress/open-egress.ts';
import type { ProcessLaunch } from '../../../src/sandbox/runner.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { createSandboxHarness, type SandboxHarness } from '../bwrap/sandbox-harness.ts';

/** An address that others on the network could have: the loopback stands in where there is none. */
const address =
  Object.values(networkInterfaces())
    .flat()
    .find((found) => found?.family === 'IPv4' && !found.internal)?.address ?? '127.0.0.1';
const script = join(import.meta.dirname, 'reaches.js');

describe.skipIf(!hasBwrap())('a sandbox with hosts', () => {
  let harness: SandboxHarness;
  let webs: Server[] = [];
  let hosts: string[] = [];
  const open: Egress[] = [];

  beforeAll(async () => {
    harness = await createSandboxHarness();
    webs = [createServer((_, answer) => answer.end('first')), createServer((_, answer) => answer.end('second'))];
    hosts = await Promise.all(
      webs.map(async (web) => {
        await once(web.listen(0, address), 'listening');
        return `${address}:${(web.address() as { port: number }).port}`;
      }),
    );
  });

  afterAll(async () => {
    await Promise.all(open.map((egress) => egress.close()));
    for (const web of webs) web.close();
    await harness.stop();
  });

  async function launched(args: readonly string[], allowed: readonly string[], given: Partial<ProcessLaunch> = {}) {
    const launch = harness.launch(args);
    const refused: EgressRefusal[] = [];
    const folder = mkdtempSync(join(harness.folder, 'egress-'));
    const egress = await openEgress({ allowed, folder, onRefused: (refusal) => refused.push(refusal) });
    open.push(egress);
    const running = await harness.runner.start({
      ...launch,
      ...given,
      egressProxy: { socket: egress.socket, allowed },
    });
    const [said, complaints, exit] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
    return { said, complaints, exit, refused };
  }

  test('reaches exactly what is listed, each its own, and nothing past the proxy', async () => {
    const [first, second] = hosts as [string, string];
    const metadata = '169.254.169.254:80';
    const asked = JSON.stringify({ places: [...hosts, metadata], plain: `http://${second}/` });
    const [one, other] = await Promise.all([launched([script, asked], [first]), launched([script, asked], [second])]);
    expect([one.complaints, one.exit.code]).toEqual(['', 7]);
    const seen = JSON.parse(one.said);
    expect(seen.found[first].through).toMatch(/^HTTP\/1\.1 200 [\s\S]*first/);
    expect(seen.found[second].through).toMatch(/^HTTP\/1\.1 403 /);
    expect(seen.found[metadata].through).toMatch(/^HTTP\/1\.1 403 /);
    for (const host of hosts) expect(seen.found[host].past).toBe('ENETUNREACH');
    expect(one.refused.map(({ to }) => to)).toEqual([second, metadata, second]);
    expect(seen.plain).toMatch(/^HTTP\/1\.1 403 /);

    const seenByOther = JSON.parse(other.said);
    expect(seenByOther.found[first].through).toMatch(/^HTTP\/1\.1 403 /);
    expect(seenByOther.found[second].through).toMatch(/^HTTP\/1\.1 200 [\s\S]*second/);
    expect(seenByOther.plain).toContain('second');
    expect(seen.proxied).toEqual(
      ['HTTPS_PROXY', 'HTTP_PROXY', 'NODE_USE_ENV_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'].sort(),
    );
    expect(seen.run).toEqual(['egress', 'egress/forwarder.mjs', 'egress/socket']);
  });

  test('serves a program that is not Node', async () => {
    const [first, second] = hosts as [string, string];
    const program = [
      'import urllib.request, urllib.error',
      `print(urllib.request.urlopen("http://${first}/").read().decode())`,
      `try: urllib.request.urlopen("http://${second}/")`,
      'except urllib.error.HTTPError as error: print(error.code)',
    ].join('\n');
    const { said, complaints } = await launched(['-c', program], [first], { command: '/usr/bin/python3' });
    expect([said, complaints]).toEqual(['first\n403\n', '']);
  });

  test('ends as its server ends, and hears its input end', async () => {
    const ends = await launched(['-e', 'process.kill(process.pid, "SIGKILL")'], hosts);
    expect(ends.exit.code).toBe(128 + 9);
    const launch = harness.launch(['-e', 'process.stdin.resume().on("end", () => console.log("end"))']);
    const running = await harness.runner.start({
      ...launch,
      egressProxy: { socket: (open[0] as Egress).socket, allowed: hosts },
    });
    running.stdin.end();
    expect(await text(running.stdout)).toBe('end\n');
    expect(await running.exited).toEqual({ code: 0, signal: null });
  });
});
