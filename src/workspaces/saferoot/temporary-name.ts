import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/**
 * Names of files that are being written, until they get their place. They say who writes: digits of the machine and
 * its numbering of processes, six of the process, the rest by chance. So what a killed process left can be told from
 * what another one is still writing.
 */
const pattern = /^\.ambit-([0-9a-f]{6})([0-9a-f]{6})[0-9a-f]{16}\.tmp$/;
const underWay = new Set<string>();
let here: string | undefined;

/** True for a name a write in progress uses, or one that was killed has left behind. */
export function isTemporaryName(name: string): boolean {
  return pattern.test(name);
}

export function freshName(): string {
  const writer = process.pid.toString(16).padStart(6, '0').slice(-6);
  const name = `.ambit-${machine()}${writer}${randomBytes(8).toString('hex')}.tmp`;
  underWay.add(name);
  return name;
}

export function nameIsFree(name: string): void {
  underWay.delete(name);
}

/** Whoever writes elsewhere cannot be asked. No write takes as long as this. */
const longestWriteMs = 600_000;

/** Whether nobody is going to move such a file to its place any more. */
export function isLeftOver(name: string, modifiedMs: number): boolean {
  const [, where, writer] = pattern.exec(name) ?? [];
  if (where === undefined || writer === undefined || underWay.has(name)) return false;
  if (Date.now() - modifiedMs > longestWriteMs) return true;
  const writerId = Number.parseInt(writer, 16);
  return where === machine() && (writerId === process.pid || !isAlive(writerId));
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** The same number means the same process only on one machine, since it was started, in one container. */
function machine(): string {
  here ??= createHash('sha256')
    .update(
      [hostname(), text(() => readFileSync(bootFile, 'latin1')), text(() => readlinkSync('/proc/self/ns/pid'))].join(),
    )
    .digest('hex')
    .slice(0, 6);
  return here;
}

const bootFile = '/proc/sys/kernel/random/boot_id';

function text(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
