import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import { etcNames, hostsFile, sandboxUser } from '../bwrap/bwrap-arguments.ts';
import { volumeFolder } from '../common/confinement.ts';
import { type LinkCopy, systemFolders } from '../common/visibility-filter.ts';
import { type Engine, runEngine } from './engine.ts';

/** An entry of a small archive; folders and links have no content. */
type TarEntry =
  | { readonly name: string; readonly kind: 'folder'; readonly owner?: ContainerUser }
  | { readonly name: string; readonly kind: 'file'; readonly content: string }
  | { readonly name: string; readonly kind: 'link'; readonly target: string };

const blockBytes = 512;

const kindCodes = { file: '0', link: '2', folder: '5' } as const;

const formatOctal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');

export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
}

const systemPaths = [...systemFolders, ...etcNames.map((name) => `/etc/${name}`)];

/** Lists the paths of this machine that are mounted into the image, read-only. */
export function listSystemMounts(): string[] {
  return systemPaths.filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink());
}

/**
 * Builds an image without programs: mount points for this machine's system, the links between them, and the user. It
 * has a few kilobytes, needs no registry, and is named by its content.
 */
export function buildLocalImage(
  { uid, gid }: ContainerUser,
  links: readonly LinkCopy[],
): { name: string; content: Buffer } {
  const ofSystem = systemPaths.flatMap((path): LinkCopy[] => {
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    return isLink ? [{ inside: path, target: readlinkSync(path) }] : [];
  });
  const linked = [...ofSystem, ...links].map(({ inside, target }): TarEntry => {
    return { name: inside.slice(1), kind: 'link', target };
  });
  const file = (name: string, content: string): TarEntry => ({ name, kind: 'file', content });
  const content = createTar([
    ...['dev', 'etc', 'proc', 'run', 'sys', 'tmp'].map((name): TarEntry => ({ name: `${name}/`, kind: 'folder' })),
    { name: `${volumeFolder.slice(1)}/`, kind: 'folder', owner: { uid, gid } },
    file('etc/passwd', `${sandboxUser.name}:x:${uid}:${gid}::${sandboxUser.home}:/bin/sh\n`),
    file('etc/group', `${sandboxUser.name}:x:${gid}:\n`),
    file('etc/hosts', hostsFile),
    ...linked,
  ]);
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return { name: `localhost/ambit-local:${digest}`, content };
}

/** Makes the image unless the engine has it already. */
export async function ensureImage(engine: Engine, { name, content }: { name: string; content: Buffer }): Promise<void> {
  if (await hasImage(engine, name)) return;
  await runEngine(engine, ['import', '-', name], { input: content });
}

export async function hasImage(engine: Engine, name: string): Promise<boolean> {
  return runEngine(engine, ['image', 'inspect', '--format', '{{.Id}}', name]).then(
    () => true,
    () => false,
  );
}

/**
 * The user of a container's program, so that it owns in the workspace what Ambit owns. For podman without root, the
 * root user inside is the account of Ambit and has no other rights.
 */
export function resolveContainerUser(engine: Engine): ContainerUser {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return engine.kind === 'podman' && uid !== 0 ? { uid: 0, gid: 0 } : { uid, gid };
}

/** Creates a tar file, with the same bytes for the same entries. Throws for a name that is too long. */
function createTar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(createTarBlocks), Buffer.alloc(2 * blockBytes)]);
}

function createTarBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.kind === 'file' ? entry.content : '');
  const header = Buffer.alloc(blockBytes);
  writeField(header, entry.name, 0, 100);
  writeField(header, entry.kind === 'folder' ? '0000755' : '0000644', 100, 8);
  const { uid, gid } = (entry.kind === 'folder' ? entry.owner : undefined) ?? { uid: 0, gid: 0 };
  writeField(header, formatOctal(uid, 7), 108, 8);
  writeField(header, formatOctal(gid, 7), 116, 8);
  writeField(header, formatOctal(content.length, 11), 124, 12);
  writeField(header, '00000000000', 136, 12);
  writeField(header, '        ', 148, 8);
  writeField(header, kindCodes[entry.kind], 156, 1);
  if (entry.kind === 'link') writeField(header, entry.target, 157, 100);
  writeField(header, 'ustar\u000000', 257, 8);
  const sum = header.reduce((total, byte) => total + byte, 0);
  writeField(header, `${formatOctal(sum, 6)}\0 `, 148, 8);
  return [header, content, Buffer.alloc((blockBytes - (content.length % blockBytes)) % blockBytes)];
}

function writeField(header: Buffer, text: string, at: number, room: number): void {
  const bytes = Buffer.from(text);
  if (bytes.length > room) throw new Error(`This is too long for a container: ${text}`);
  bytes.copy(header, at);
}
