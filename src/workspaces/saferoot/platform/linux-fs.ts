import { close, closeSync, constants, fstatSync, openSync, readFileSync, statfsSync } from 'node:fs';
import { SafeRootError } from '../saferoot-error.ts';
import { type Handle, type PlatformFs, pathAt } from './platform-fs.ts';

/**
 * File systems that expose state of the kernel. Read by this process they would reveal its environment and memory. A
 * folder that holds a system image often has some of them mounted.
 */
const kernelFileSystems: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x62656570, // configfs
  0x64626720, // debugfs
  0x74726163, // tracefs
  0x73636673, // securityfs
  0x27e0eb, // cgroup
  0x63677270, // cgroup2
  0xcafe4a11, // bpf
  0xde5e81e4, // efivarfs
  0x6165676c, // pstore
  0xf97cff8c, // selinux
  0x43415d53, // smack
  0x5a3c69f0, // apparmor
  0x1cd1, // devpts
  0x42494e4d, // binfmt_misc
  0x19800202, // mqueue
  0x65735543, // fusectl
  0x6e667364, // nfsd
  0x67596969, // rpc_pipefs
  0x7655821, // resctrl
  0x6e736673, // nsfs
]);

/** Opens a handle without opening the file. Node does not name the flag; it is the same on every processor. */
const O_PATH = 0o10000000;

/**
 * Replaces `openat`, which Node does not have: in `/proc/self/fd/<n>/<name>` the kernel jumps to what descriptor `n`
 * holds and looks up a single name there. So every step starts from a folder that was seen, wherever it has been moved
 * since.
 */
export function createLinuxFs(strict: boolean): PlatformFs {
  let rootHandle: Handle | undefined;

  function createHandle(descriptor: number, from: Handle | undefined): Handle {
    try {
      const handle = { descriptor, path: `/proc/self/fd/${descriptor}`, stats: fstatSync(descriptor) };
      if (from === undefined || handle.stats.dev !== from.stats.dev) assertNotKernelFs(handle);
      rootHandle ??= handle;
      if (strict && !isSameMount(handle, rootHandle)) {
        throw new SafeRootError('PATH_VIOLATION', { what: 'leads into another mount' });
      }
      return handle;
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  return {
    platform: 'linux',
    openRoot: (path) => createHandle(openSync(path, O_PATH | constants.O_DIRECTORY), undefined),
    step: (from, name) => createHandle(openSync(pathAt(from, name), O_PATH | constants.O_NOFOLLOW), from),
    // Non-blocking: a process with a lease on a file could otherwise hold up everyone for most of a minute.
    reopenToRead: (file) => openSync(file.path, constants.O_RDONLY | constants.O_NONBLOCK),
    release: (handle) => closeSync(handle.descriptor as number),
    releaseRemoved: (handle) => close(handle.descriptor as number, () => {}),
    isSameMount,
  };
}

/** Compares mount ids: device numbers are equal where a folder of the same file system is mounted. */
function isSameMount(one: Handle, other: Handle): boolean {
  const mount = readMountId(one);
  return mount !== undefined && mount === readMountId(other);
}

function readMountId(handle: Handle): string | undefined {
  return /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${handle.descriptor}`, 'latin1'))?.[1];
}

function assertNotKernelFs(handle: Handle): void {
  if (isKernelFileSystem(statfsSync(handle.path).type)) {
    throw new SafeRootError('PATH_VIOLATION', { what: 'leads into a file system of the kernel' });
  }
}

/** The type is the kernel's `f_type`, which may arrive sign-extended. */
export function isKernelFileSystem(type: number): boolean {
  return kernelFileSystems.has(type >>> 0);
}
