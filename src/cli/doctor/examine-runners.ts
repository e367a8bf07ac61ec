import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAmbitError } from '../../errors.ts';
import { type Machine, thisMachine } from '../../sandbox/common/machine.ts';
import { createTmpRoot } from '../../sandbox/common/sweep-leftovers.ts';
import { createLimiter } from '../../sandbox/limits/limiter.ts';
import { type InForce, type Limits, type Means, remedyForLimit } from '../../sandbox/limits/limits.ts';
import { createWarden } from '../../sandbox/reaper/reaper.ts';
import type { Probed, SandboxRunner } from '../../sandbox/runner.ts';
import { createRunners } from '../../sandbox/runners.ts';
import type { Finding } from './finding.ts';

/** Starts each sandbox there is for real, in a folder that is gone afterwards. */
export async function examineRunners(): Promise<Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-doctor-'));
  const tmpRoot = await createTmpRoot(folder);
  const warden = createWarden({ tmpRoot });
  try {
    const { plain, sandboxes } = createRunners({ warden, tmpRoot, packages: join(folder, 'packages') });
    const direct: Finding = { kind: 'runner', name: plain.name, state: 'ok', detail: 'direct sessions', remedy: null };
    const probed = await Promise.all(sandboxes.map(examined));
    const [first, second] = probed.flatMap(({ result }) => result ?? []);
    const limits = first?.limits ?? (await createLimiter().inForce());
    return [direct, ...probed.map(({ finding }) => finding), ...limitFindings(limits, thisMachine(), second?.limits)];
  } finally {
    await warden.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function examined(sandbox: SandboxRunner): Promise<{ finding: Finding; result?: Probed }> {
  const about = { kind: 'runner', name: sandbox.name } as const;
  try {
    const result = await sandbox.probe();
    const holds = Object.keys(result.enforced).map(inWords).join(', ');
    const by = result.by === undefined ? '' : ` by ${result.by}`;
    return { finding: { ...about, state: 'ok', detail: `sandboxed sessions${by}: ${holds}`, remedy: null }, result };
  } catch (error) {
    const why = (error as Error).message.replace(/^.*no sandbox can be had here: /, '').replace(/\.$/, '');
    return { finding: { ...about, state: 'missing', detail: why, remedy: isAmbitError(error) ? error.hint : null } };
  }
}

/** Those of the sandbox that is taken first, and how containers differ, which servers with an image always take. */
export function limitFindings(limits: InForce, machine: Machine, inContainers = limits): Finding[] {
  return (Object.keys(limits) as (keyof Limits)[]).map((name) => {
    const means = limits[name];
    const remedy = remedyForLimit(name, means, machine) ?? null;
    const weak = means === 'watchdog' || means === 'priority' || means.endsWith(' each');
    return {
      kind: 'limit',
      name,
      state: means === 'none' ? 'missing' : weak ? 'weak' : 'ok',
      detail: alike(name, means, inContainers[name])
        ? by(name, means)
        : `${by(name, means)}; in containers ${by(name, inContainers[name])}`,
      remedy,
    };
  });
}

/** What matters is who keeps it, not by which of its means the kernel does. */
function alike(name: keyof Limits, one: Means, other: Means): boolean {
  return one === other || [one, other].every((each) => by(name, each).startsWith('by the kernel'));
}

const looking = 'by Ambit, which looks twice a second';
const uncounted = 'shared memory that a process has let go of, and what waits in pipes and sockets';

function by(name: keyof Limits, means: Means): string {
  if (means === 'watchdog') return name === 'memoryMb' ? `${looking}; not counted is ${uncounted}` : looking;
  if (means === 'priority') return 'not bounded; others go first';
  if (means === 'timer') return 'by Ambit';
  if (means === 'none') return 'not bounded';
  if (!means.endsWith(' each')) return `by the kernel (${means})`;
  const all = name === 'cpus' ? 'not those of a session together' : `those of a session together ${looking}`;
  return `each process by the kernel (${means.replace(/ each$/, '')}), ${all}`;
}

/** `noNewPrivileges` becomes "no new privileges". */
function inWords(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
