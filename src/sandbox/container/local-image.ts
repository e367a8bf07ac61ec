import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import { hosts, user } from '../bwrap/bwrap-arguments.ts';
import { type Link, systemFolders } from '../bwrap/visibility-filter.ts';
import { type Engine, order } from './engine.ts';
import { volumeFolder } from './volume-folder.ts';

/** What a small archive holds; folders and links have no content. */
type TarEntry =
  | { readonly name: string; readonly kind: 'folder'; readonly owner?: { readonly uid: number; readonly gid: number } }
  | { readonly name: string; readonly kind: 'file'; readonly content: string }
  | { readonly name: string; readonly kind: 'link'; readonly target: string };

const block = 512;

const kinds = { file: '0', link: '2', folder: '5' } as const;

const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

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

/**
 * Who a container's program is, so that it owns in the workspace what Ambit owns. For a podman of an ordinary account
 * the one called root inside is this account, and has no other rights.
 */
export function accountInside(engine: Engine): Account {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return engine.kind === 'podman' && uid !== 0 ? { uid: 0, gid: 0 } : { uid, gid };
}

/** Always the same bytes for the same entries. Throws for a name longer than the old format holds. */
function tarOf(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(partsOf), Buffer.alloc(2 * block)]);
}

function partsOf(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.kind === 'file' ? entry.content : '');
  const header = Buffer.alloc(block);
  put(header, entry.name, 0, 100);
  put(header, entry.kind === 'folder' ? '0000755' : '0000644', 100, 8);
  const { uid, gid } = (entry.kind === 'folder' ? entry.owner : undefined) ?? { uid: 0, gid: 0 };
  put(header, octal(uid, 7), 108, 8);
  put(header, octal(gid, 7), 116, 8);
  put(header, octal(content.length, 11), 124, 12);
  put(header, '00000000000', 136, 12);
  put(header, '        ', 148, 8);
  put(header, kinds[entry.kind], 156, 1);
  if (entry.kind === 'link') put(header, entry.target, 157, 100);
  put(header, 'ustar\u000000', 257, 8);
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(header, `${octal(sum, 6)}\0 `, 148, 8);
  return [header, content, Buffer.alloc((block - (content.length % block)) % block)];
}

function put(header: Buffer, text: string, at: number, room: number): void {
  const bytes = Buffer.from(text);
  if (bytes.length > room) throw new Error(`This is too long for a container: ${text}`);
  bytes.copy(header, at);
}
