type Architecture = 'x64' | 'arm64';

/** Numbers: [x86-64, AArch64]. A null means that the processor has no such call. */
type Numbers = readonly [number, number | null];

const refused = {
  // Other processes, and what the kernel knows about them.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  perf_event_open: [298, 241],
  // Mounts and namespaces.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  setns: [308, 268],
  unshare: [272, 97],
  // Files by number instead of by name.
  open_by_handle_at: [304, 265],
  name_to_handle_at: [303, 264],
  fanotify_init: [300, 262],
  lookup_dcookie: [212, 18],
  // Programs and rings inside the kernel.
  bpf: [321, 280],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  // Keys belong to the user, not to the sandbox.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // The machine itself.
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  create_module: [174, null],
  query_module: [178, null],
  get_kernel_syms: [177, null],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  syslog: [103, 116],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  vhangup: [153, 58],
  nfsservctl: [180, 42],
  move_pages: [279, 239],
  uselib: [134, null],
  ustat: [136, null],
  sysfs: [139, null],
  _sysctl: [156, null],
  iopl: [172, null],
  ioperm: [173, null],
  modify_ldt: [154, null],
} as const satisfies Record<string, Numbers>;

const judgedByArguments = {
  clone: [56, 220],
  clone3: [435, 435],
  ioctl: [16, 29],
  socket: [41, 198],
  socketpair: [53, 199],
  chmod: [90, null],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  mkdir: [83, null],
  mkdirat: [258, 34],
  mknod: [133, null],
  mknodat: [259, 33],
  open: [2, null],
  creat: [85, null],
  openat: [257, 56],
  openat2: [437, 437],
} as const satisfies Record<string, Numbers>;

/** Memory that belongs to no process: only a control group counts it. */
const unowned = {
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  shmget: [29, 194],
} as const satisfies Record<string, Numbers>;

const numbers = { ...refused, ...judgedByArguments, ...unowned };

export type Syscall = keyof typeof numbers;

/** The newest system call that was reviewed. Later ones do not exist in a sandbox. */
const newestSyscall = 470;

export const refusedSyscalls = Object.keys(refused) as readonly Syscall[];

export const unaccountedSyscalls = Object.keys(unowned) as readonly Syscall[];
/** One step of a classic BPF program. */
type Step = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

const load = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const jumpIfAny = 0x45;
const leave = 0x06;

const allow = 0x7fff0000;
const kill = 0x80000000;
const refuseWith = (errno: number): number => 0x00050000 | errno;
const EPERM = refuseWith(1);
const ENOSYS = refuseWith(38);
const EAFNOSUPPORT = refuseWith(97);

const auditNames = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
/** System calls of the x32 ABI have numbers from here on, which would bypass every comparison. */
const x32 = 0x40000000;

const namespaceFlags = 0x7e020000;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** Unix, IPv4, IPv6, netlink. Others, such as those between virtual machines, know no network namespace. */
const families = [1, 2, 10, 16];
const setIdBits = 0o6000;
const createFlags = 0o100 | 0o20000000;

const loadNumber: Step = [load, 0, 0, 0];
const loadArgument = (index: number): Step => [load, 0, 0, 16 + 8 * index];
const answer = (value: number): Step => [leave, 0, 0, value];

const ifAny = (mask: number, then: number): Step[] => [[jumpIfAny, 0, 1, mask], answer(then)];
const ifEqual = (value: number, then: number): Step[] => [[jumpIfEqual, 0, 1, value], answer(then)];

/** Refuses set-user-ID files, which would run with the rights of the sandbox's user. */
const refuseSetId = (argument: number): Step[] => [loadArgument(argument), ...ifAny(setIdBits, EPERM), answer(allow)];
const refuseSetIdWhenCreating = (flags: number, mode: number): Step[] => [
  loadArgument(flags),
  [jumpIfAny, 1, 0, createFlags],
  answer(allow),
  ...refuseSetId(mode),
];
const onlyFamilies: Step[] = [
  loadArgument(0),
  ...families.flatMap((family) => ifEqual(family, allow)),
  answer(EAFNOSUPPORT),
];

const argumentChecks: readonly (readonly [Syscall, readonly Step[]])[] = [
  ['clone', [loadArgument(0), ...ifAny(namespaceFlags, EPERM), answer(allow)]],
  // Their flags lie in memory, which a filter cannot read. Libraries fall back to the older calls.
  ['clone3', [answer(ENOSYS)]],
  ['openat2', [answer(ENOSYS)]],
  ['ioctl', [loadArgument(1), ...ifEqual(TIOCSTI, EPERM), ...ifEqual(TIOCLINUX, EPERM), answer(allow)]],
  ['socket', onlyFamilies],
  ['socketpair', onlyFamilies],
  ['chmod', refuseSetId(1)],
  ['fchmod', refuseSetId(1)],
  ['fchmodat', refuseSetId(2)],
  ['fchmodat2', refuseSetId(2)],
  ['mkdir', refuseSetId(1)],
  ['mkdirat', refuseSetId(2)],
  ['mknod', refuseSetId(1)],
  ['mknodat', refuseSetId(2)],
  ['creat', refuseSetId(1)],
  ['open', refuseSetIdWhenCreating(1, 2)],
  ['openat', refuseSetIdWhenCreating(2, 3)],
];

export function hasSeccompFilter(architecture: string): architecture is Architecture {
  return Object.hasOwn(auditNames, architecture);
}

/**
 * The BPF program that the kernel runs before each system call of a sandbox; little-endian, as both processors are.
 * Without a control group that counts memory, calls that make memory of no process are refused.
 */
export function seccompFilter(architecture: Architecture, countsMemory = true): Buffer {
  const steps: Step[] = [
    [load, 0, 0, 4],
    [jumpIfEqual, 1, 0, auditNames[architecture]],
    answer(kill),
    loadNumber,
    [jumpIfAtLeast, 0, 1, x32],
    answer(EPERM),
    [jumpIfAtLeast, 0, 1, newestSyscall + 1],
    answer(ENOSYS),
  ];
  for (const call of refusedSyscalls) {
    const number = syscallNumber(call, architecture);
    if (number !== null) steps.push(...ifEqual(number, EPERM));
  }
  for (const call of countsMemory ? [] : unaccountedSyscalls) {
    const number = syscallNumber(call, architecture);
    // Libraries fall back to other calls.
    if (number !== null) steps.push(...ifEqual(number, ENOSYS));
  }
  for (const [call, then] of argumentChecks) {
    const number = syscallNumber(call, architecture);
    if (number !== null) steps.push([jumpIfEqual, 0, then.length, number], ...then);
  }
  steps.push(answer(allow));
  const program = Buffer.alloc(steps.length * 8);
  for (const [index, [code, ifTrue, ifFalse, value]] of steps.entries()) {
    program.writeUInt16LE(code, index * 8);
    program.writeUInt8(ifTrue, index * 8 + 2);
    program.writeUInt8(ifFalse, index * 8 + 3);
    program.writeUInt32LE(value >>> 0, index * 8 + 4);
  }
  return program;
}

function syscallNumber(call: Syscall, architecture: Architecture): number | null {
  return numbers[call][architecture === 'x64' ? 0 : 1];
}
