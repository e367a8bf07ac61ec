import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import { hosts, user } from '../bwrap/profile.ts';
import type { Link } from '../bwrap/trace.ts';
import { systemFolders } from '../bwrap/what-may-be-shown.ts';
import type { Account } from './account.ts';
import { type Engine, order } from './engine.ts';
import { type TarEntry, tarOf } from './tar.ts';
import { volumeFolder } from './volume-folder.ts';

const shownInEtc = ['alternatives', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime', 'timezone'];
const ofTheSystem = [...systemFolders, ...shownInEtc.map((name) => `/etc/${name}`)];

/** What of this machine is mounted into the image, read-only. */
export function systemMounts(): string[] {
  return ofTheSystem.filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink());
}

/**
 * An image without programs: places to mount this machine's system upon, the links between them, and who the user is. It
 * is a few kilobytes, needs no registry, and is named by what it holds.
 */
export function localImage({ uid, gid }: Account, links: readonly Link[]): { name: string; content: Buffer } {
  const ofSystem = ofTheSystem.flatMap((path): Link[] => {
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    return isLink ? [{ inside: path, target: readlinkSync(path) }] : [];
  });
  const linked = [...ofSystem, ...links].map(({ inside, target }): TarEntry => {
    return { name: inside.slice(1), kind: 'link', target };
  });
  const file = (name: string, content: string): TarEntry => ({ name, kind: 'file', content });
  const content = tarOf([
    ...['dev', 'etc', 'proc', 'run', 'sys', 'tmp'].map((name): TarEntry => ({ name: `${name}/`, kind: 'folder' })),
    { name: `${volumeFolder.slice(1)}/`, kind: 'folder', owner: { uid, gid } },
    file('etc/passwd', `${user.name}:x:${uid}:${gid}::${user.home}:/bin/sh\n`),
    file('etc/group', `${user.name}:x:${gid}:\n`),
    file('etc/hosts', hosts),
    ...linked,
  ]);
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return { name: `localhost/ambit-local:${digest}`, content };
}

/** Makes it unless it is there already. */
export async function provideImage(
  engine: Engine,
  { name, content }: { name: string; content: Buffer },
): Promise<void> {
  if (await hasImage(engine, name)) return;
  await order(engine, ['import', '-', name], { input: content });
}

export async function hasImage(engine: Engine, name: string): Promise<boolean> {
  return order(engine, ['image', 'inspect', '--format', '{{.Id}}', name]).then(
    () => true,
    () => false,
  );
}
