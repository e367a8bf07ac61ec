/**
 * File systems whose files are the kernel's own state. Read by this process they would tell of this process: its
 * environment, its memory. A folder that holds a system image often has some of them mounted.
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

/** The type is the kernel's `f_type`, which may arrive sign-extended. */
export function isKernelFileSystem(type: number): boolean {
  return kernelFileSystems.has(type >>> 0);
}
