/**
 * System calls by which programs have left containers, or that act on the machine. Names and numbers are written down
 * here from the headers of the kernel, and not taken from the code: a call that disappears from the code is then noticed.
 * The numbers are those of x86-64 and AArch64; null where the processor has no such call.
 */
export const dangerousCalls: Readonly<Record<string, readonly [x64: number, arm64: number | null]>> = {
  // They read or change other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  perf_event_open: [298, 241],
  move_pages: [279, 239],
  // They change mounts, the root folder or namespaces.
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
  // They open or watch files past the mounts of the sandbox.
  open_by_handle_at: [304, 265],
  name_to_handle_at: [303, 264],
  fanotify_init: [300, 262],
  lookup_dcookie: [212, 18],
  // They run programs in the kernel, or make calls that no filter sees.
  bpf: [321, 280],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  // Keys belong to the user of the machine, not to the sandbox.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // They change the kernel or the whole machine.
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
  uselib: [134, null],
  ustat: [136, null],
  sysfs: [139, null],
  _sysctl: [156, null],
  iopl: [172, null],
  ioperm: [173, null],
  modify_ldt: [154, null],
};

/** Calls that are allowed with some arguments only. */
export const judgedCalls = {
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
  creat: [85, null],
  open: [2, null],
  openat: [257, 56],
  openat2: [437, 437],
} as const satisfies typeof dangerousCalls;

export type JudgedCall = keyof typeof judgedCalls;
export type Verdict = 'allowed' | 'refused' | 'not there' | 'no such family';

const namespaceFlags = [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000];
const CREATE = 0o100;
const WRITE = 0o1;
const TEMPORARY = 0o20000000;
const [TIOCSTI, TIOCLINUX, TCGETS, TIOCGWINSZ] = [0x5412, 0x541c, 0x5401, 0x5413];
/** Bits that the kernel does not look at. */
const unseen = 2 ** 32;

/** Calls with their arguments, and what a sandbox does about them. */
export const judgements: readonly (readonly [JudgedCall, readonly number[], Verdict])[] = [
  // Threads and processes, but no namespaces.
  ['clone', [0x003d0f00], 'allowed'],
  ['clone', [17], 'allowed'],
  ...namespaceFlags.map((flag) => ['clone', [flag + 17], 'refused'] as const),
  ['clone3', [], 'not there'],
  // A terminal can be used, but nothing can be typed into it.
  ...[TCGETS, TIOCGWINSZ, TIOCSTI + 0x10, TIOCSTI - 1, TIOCLINUX + 1, 0x80045430].map(
    (request) => ['ioctl', [0, request], 'allowed'] as const,
  ),
  ...[TIOCSTI, TIOCLINUX, TIOCSTI + unseen, TIOCLINUX + unseen].map(
    (request) => ['ioctl', [0, request], 'refused'] as const,
  ),
  // Sockets of Unix, IPv4, IPv6 and netlink only.
  ...(['socket', 'socketpair'] as const).flatMap((call) => [
    ...[1, 2, 10, 16].map((family) => [call, [family, 1, 0], 'allowed'] as const),
    ...[0, 3, 17, 31, 38, 40, 44].map((family) => [call, [family, 1, 0], 'no such family'] as const),
  ]),
  // Modes, but none that lend the rights of an account.
  ...(['chmod', 'fchmod', 'mkdir', 'mknod', 'creat'] as const).flatMap((call) => [
    [call, [0, 0o755], 'allowed'] as const,
    ...[0o4755, 0o2755, 0o6755].map((mode) => [call, [0, mode], 'refused'] as const),
  ]),
  ...(['fchmodat', 'fchmodat2', 'mkdirat', 'mknodat'] as const).flatMap((call) => [
    [call, [3, 0, 0o755], 'allowed'] as const,
    ...[0o4755, 0o2755, 0o6755].map((mode) => [call, [3, 0, mode], 'refused'] as const),
  ]),
  // The mode means nothing while no file is made.
  ...(['open', 'openat'] as const).flatMap((call) => {
    const before = call === 'open' ? [0] : [3, 0];
    return [
      [call, [...before, 0, 0o4755], 'allowed'] as const,
      [call, [...before, CREATE + WRITE, 0o644], 'allowed'] as const,
      ...[CREATE + WRITE, TEMPORARY + WRITE].flatMap((flags) =>
        [0o4755, 0o2755].map((mode) => [call, [...before, flags, mode], 'refused'] as const),
      ),
    ];
  }),
  ['openat2', [], 'not there'],
];
