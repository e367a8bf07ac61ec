import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import { createRawClient } from '../../gateway/raw-client.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts } from '../../proof.ts';
import { groupsThere, processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';

/** The smallest server there is, so that what is measured is what is around it. */
const server = `while read -r line; do
  id=\${line#*'"id":'}; id=\${id%%[,\\}]*}
  case $line in
    *server/discover*) result='"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
    *tools/call*) result='"content":[{"type":"text","text":"done"}]' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}\\n' "$id" "$result"
done`;

const small = { command: '/bin/sh', args: ['-c', server], era: 'modern' as const };
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-churned-')));
const dataDir = join(folder, 'data');
let gateway: EmbeddedGateway;

beforeAll(async () => {
  mkdirSync(join(folder, 'garden'));
  gateway = await createQuietGateway(dataDir, {
    servers: { small, outward: { ...small, sandbox: { network: ['127.0.0.1:9'] } } },
    workspaces: { garden: { path: join(folder, 'garden') } },
  });
});
afterAll(async () => {
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function live(index: number): Promise<void> {
  const where = index % 2 === 0 ? { workspaceId: 'garden' } : {};
  const { id } = await gateway.createSession({ trustLevel: 'sandboxed', ...where });
  const client = await createRawClient(gateway.connect(id, index % 10 === 0 ? 'outward' : 'small'), 'modern');
  expect(await client.call('anything')).toBe('done');
  await gateway.endSession(id);
  await client.close();
}

const namesIn = (...path: string[]) => {
  const place = join(dataDir, ...path);
  return existsSync(place) ? readdirSync(place) : [];
};
/** Outside of every sandbox; others mount what they like. */
const mounts = () =>
  readFileSync('/proc/self/mountinfo', 'latin1')
    .split('\n')
    .filter((line) => line.includes(folder));
const descriptors = () => readdirSync('/proc/self/fd').length;

describe.skipIf(!hasBwrap())('sandboxed sessions that come and go', () => {
  test('leave no process, group, mount, socket, descriptor or folder', async () => {
    // The first one brings what all later ones share.
    await live(0);
    const [instance = ''] = readdirSync(join(dataDir, 'tmp'));
    const groups = () => groupsThere().filter((path) => path.includes(`/ambit-${instance.replace('instance-', '')}-`));
    const folders = () => [
      ...namesIn('tmp', instance).filter((name) => /^p\d/.test(name)),
      ...namesIn('tmp', instance, 'cgroups'),
      ...namesIn('run'),
    ];
    const left = () => [...processesIn(folder), ...groups(), ...folders()];
    await waitUntilEmpty(left, 5000);
    const before = descriptors();
    const together = 10;
    for (let from = 0; from < counts(20, 2000); from += together) {
      await Promise.all(Array.from({ length: together }, (_, i) => live(from + i)));
    }
    await until(
      () => left().length === 0 && descriptors() <= before,
      10_000,
      () => `left: ${left()}, ${descriptors() - before} descriptors`,
    );
    expect(mounts()).toEqual([]);
  });
});
