import { readFileSync } from 'node:fs';
import { inOrder, type Mounts } from '../bwrap/mounts.ts';
import type { Pinned } from '../bwrap/pinned.ts';

interface Mount {
  readonly id: string;
  readonly device: string;
  /** Where in its file system it begins. */
  readonly root: string;
  readonly place: string;
  readonly writable: boolean;
}

/**
 * Engines mount by name, and a name in a workspace can be given to something else between our look and theirs. So what
 * they have mounted is compared with what is held, before the program runs. Throws when it is something else.
 */
export function assertShownTruly(pid: number, mounts: Pick<Mounts, 'places' | 'guarded'>): void {
  const here = parseMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  const inside = parseMounts(readFileSync(`/proc/${pid}/mountinfo`, 'utf8'));
  for (const { what, writable } of inOrder(mounts)) {
    const found = inside.findLast(({ place }) => place === what.inside);
    const held = placeOf(what, here);
    const isSame = found !== undefined && found.device === held.device && found.root === held.root;
    if (!isSame || found.writable !== writable) {
      throw new Error(`Something else than this was about to be shown in a container: ${what.real}`);
    }
  }
}

/** The file system a held thing lies in, and where. */
function placeOf({ descriptor, real }: Pinned, mounts: readonly Mount[]): { device: string; root: string } {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1];
  const mount = mounts.find((each) => each.id === id);
  if (mount === undefined) throw new Error(`Nothing tells where this lies: ${real}`);
  const below = mount.place === '/' ? real : real.slice(mount.place.length);
  return { device: mount.device, root: joined(mount.root, below) };
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
