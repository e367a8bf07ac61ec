export type Architecture = 'x64' | 'arm64';

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

export type SystemCall = keyof typeof numbers;

/** The newest call that was looked at; what comes after it is not there, as far as a sandbox is concerned. */
export const newestCall = 470;

export const refusedCalls = Object.keys(refused) as readonly SystemCall[];
export const unownedCalls = Object.keys(unowned) as readonly SystemCall[];

export function numberOf(call: SystemCall, architecture: Architecture): number | null {
  return numbers[call][architecture === 'x64' ? 0 : 1];
}
