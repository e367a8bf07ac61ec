import { readFileSync, readlinkSync } from 'node:fs';
import { inOrder, type Mounts } from './mounts.ts';
import type { Pinned } from './pinned.ts';
import { unavailable } from './remedy.ts';

interface Mount {
  readonly id: string;
  readonly device: string;
  /** Where in its file system it begins. */
  readonly root: string;
  readonly place: string;
  readonly writable: boolean;
}

/**
 * Engines mount by name, and bwrap mounts upon names. A name in a workspace can be given to something else between our look
 * and theirs. So what they have mounted is compared with what is held, before the program runs. Throws when it is something
 * else, lies elsewhere, or can be written although it should not.
 */
export function assertShownTruly(pid: number, mounts: Pick<Mounts, 'places' | 'guarded'>): void {
  const here = parseMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  const inside = new Map(
    parseMounts(readFileSync(`/proc/${pid}/mountinfo`, 'utf8')).map((mount) => [mount.place, mount]),
  );
  for (const { what, writable } of inOrder(mounts)) {
    const found = inside.get(what.inside);
    const held = placeOf(what, here);
    const isSame = found !== undefined && found.device === held.device && found.root === held.root;
    if (!isSame || (found.writable && !writable)) throw replacedMeanwhile();
  }
}

/** Somebody has moved or replaced what is shown, while it was being shown. */
export function replacedMeanwhile() {
  return unavailable(
    'something that is guarded in a folder was moved or replaced while the sandbox was set up',
    'Try again. If it happens again, look which server or program moves folders of the workspace.',
  );
}

/** The file system a held thing lies in, and where. */
function placeOf({ descriptor }: Pinned, mounts: readonly Mount[]): { device: string; root: string } {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1];
  const mount = mounts.find((each) => each.id === id);
  if (mount === undefined)
    throw unavailable('the kernel does not tell where a folder lies', 'Run Ambit outside of chroot.');
  const path = readlinkSync(`/proc/self/fd/${descriptor}`);
  return {
    device: mount.device,
    root: joined(mount.root, mount.place === '/' ? path : path.slice(mount.place.length)),
  };
}

const joined = (root: string, below: string): string => (root === '/' ? below || '/' : root + below);

export function parseMounts(text: string): Mount[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', , device = '', root = '', place = '', options = ''] = line.split(' ');
      return {
        id,
        device,
        root: unescaped(root),
        place: unescaped(place),
        writable: options.split(',').includes('rw'),
      };
    });
}

/** The kernel writes blanks, tabs, line breaks and backslashes as three octal digits. */
function unescaped(path: string): string {
  const bytes = Buffer.from(path, 'utf8').toString('latin1');
  const plain = bytes.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(plain, 'latin1').toString('utf8');
}
