/** A tree of control groups that this process is in. */
export interface Hierarchy {
  readonly version: 1 | 2;
  /** Those that hang in this tree; with version 2 the group itself says which there are. */
  readonly controllers: readonly string[];
  /** The group of this process, as a folder. */
  readonly own: string;
}

/** From `/proc/self/cgroup` and `/proc/self/mountinfo`; what is not mounted, or lies outside of what is, is left out. */
export function hierarchiesOf(groups: string, mounts: string): Hierarchy[] {
  const found: Hierarchy[] = [];
  for (const line of groups.split('\n')) {
    const [, names, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined || path.startsWith('/..')) continue;
    const version = names === '' ? 2 : 1;
    const controllers = names.split(',').filter((name) => name !== '' && !name.startsWith('name='));
    if (version === 1 && controllers.length === 0) continue;
    const mount = mountsOf(mounts).find((each) => each.version === version && isOf(each, controllers));
    const inside = mount === undefined ? undefined : below(path, mount.root);
    if (mount === undefined || inside === undefined) continue;
    found.push({ version, controllers, own: `${mount.folder}${inside}`.replace(/(?<!\/)\/+$/, '') });
  }
  return found;
}

interface Mount {
  readonly version: 1 | 2;
  readonly root: string;
  readonly folder: string;
  readonly options: readonly string[];
}

function mountsOf(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, folder] = before.split(' ');
    const [type, , options = ''] = after.split(' ');
    if (root === undefined || folder === undefined || (type !== 'cgroup' && type !== 'cgroup2')) return [];
    return [
      { version: type === 'cgroup' ? 1 : 2, root: plain(root), folder: plain(folder), options: options.split(',') },
    ];
  });
}

const isOf = ({ options }: Mount, controllers: readonly string[]): boolean =>
  controllers.every((name) => options.includes(name));

/** In a container the tree may be mounted from our own group on downwards, while groups are named from the top. */
function below(path: string, root: string): string | undefined {
  if (root === '/') return path;
  if (path === root) return '';
  return path.startsWith(`${root}/`) ? path.slice(root.length) : undefined;
}

/** The kernel writes blanks and their like as octal numbers. */
function plain(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
