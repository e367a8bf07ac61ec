import { refusedSyscalls, type Syscall, unaccountedSyscalls } from '../bwrap/seccomp-filter.ts';

/**
 * Every system call up to the newest reviewed one, except those that are refused or checked by their arguments. Engines
 * take names only, and skip those that their kernel or processor does not have.
 */
const allowedSyscalls: readonly string[] = `
  accept accept4 access adjtimex afs_syscall alarm arch_prctl bind brk cachestat capget capset chdir chown
  clock_adjtime clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range dup dup2 dup3
  epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
  eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fanotify_mark fchdir fchown
  fchownat fcntl fdatasync fgetxattr file_getattr file_setattr flistxattr flock fork fremovexattr fsetxattr fstat
  fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_mempolicy
  get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
  getpeername getpgid getpgrp getpid getpmsg getppid getpriority getrandom getresgid getresuid getrlimit getrusage
  getsid getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init
  inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioprio_get
  ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat
  listen listmount listns listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr
  lsm_list_modules lsm_set_self_attr lstat madvise map_shadow_stack mbind membarrier memfd_create memfd_secret
  migrate_pages mincore mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
  mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep
  newfstatat pause personality pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll
  ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 putpmsg pwrite64 pwritev pwritev2 read
  readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr removexattrat rename
  renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
  rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
  sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
  sched_setattr sched_setparam sched_setscheduler sched_yield seccomp security select semctl semget semop
  semtimedop sendfile sendmmsg sendmsg sendto set_mempolicy set_mempolicy_home_node set_robust_list
  set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid
  setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget
  shutdown sigaltstack signalfd signalfd4 splice stat statfs statmount statx symlink symlinkat sync
  sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime
  timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate tuxcall umask uname unlink
  unlinkat utime utimensat utimes vfork vmsplice vserver wait4 waitid write writev
`
  .trim()
  .split(/\s+/);

const EPERM = 1;
const ENOSYS = 38;
const namespaceBits = [0x40000000, 0x20000000, 0x10000000, 0x08000000, 0x04000000, 0x02000000, 0x00020000];
const setIdBits = [0o4000, 0o2000];
const createBits = [0o100, 0o20000000];
/** Unix, IPv4, IPv6, netlink. */
const families = [1, 2, 10, 16];
const word = 0xffffffff;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
const architectures: Readonly<Record<string, string>> = { x64: 'SCMP_ARCH_X86_64', arm64: 'SCMP_ARCH_AARCH64' };

interface ArgTest {
  readonly index: number;
  readonly op: string;
  readonly value: number;
  readonly valueTwo?: number;
}

interface SeccompRule {
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly ArgTest[];
}

const allow = (names: readonly string[], ...args: ArgTest[]): SeccompRule => ({
  names,
  action: 'SCMP_ACT_ALLOW',
  args,
});
const refuse = (names: readonly string[], ...args: ArgTest[]): SeccompRule => ({
  names,
  action: 'SCMP_ACT_ERRNO',
  errnoRet: EPERM,
  args,
});
const equals = (index: number, value: number): ArgTest => ({ index, value, op: 'SCMP_CMP_EQ' });
const maskedEquals = (index: number, mask: number, value: number): ArgTest => ({
  index,
  value: mask,
  valueTwo: value,
  op: 'SCMP_CMP_MASKED_EQ',
});
const hasNoneOf = (index: number, bits: readonly number[]): ArgTest =>
  maskedEquals(
    index,
    bits.reduce((all, bit) => all + bit, 0),
    0,
  );
const hasBit = (index: number, bit: number): ArgTest => maskedEquals(index, bit, bit);

/** Tests each bit in a rule of its own: a rule of an engine holds only when all of its tests do. */
const refuseSetId = (names: readonly string[], mode: number): SeccompRule[] => [
  allow(names, hasNoneOf(mode, setIdBits)),
  ...setIdBits.map((bit) => refuse(names, hasBit(mode, bit))),
];
const refuseSetIdWhenCreating = (name: string, flags: number, mode: number): SeccompRule[] => [
  allow([name], hasNoneOf(flags, createBits)),
  ...createBits.flatMap((create) => [
    allow([name], hasBit(flags, create), hasNoneOf(mode, setIdBits)),
    ...setIdBits.map((bit) => refuse([name], hasBit(flags, create), hasBit(mode, bit))),
  ]),
];

/**
 * The filter of bwrap as a profile for container engines. Their own profiles allow tracing, and some io_uring and keys.
 * Calls without a rule do not exist: newer ones, those with flags in memory, and those that make memory of no process
 * where no control group counts it.
 */
export function seccompProfile(architecture: string, countsMemory = true): string {
  const isThere = (call: string) => countsMemory || !unaccountedSyscalls.includes(call as Syscall);
  const profile = {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    architectures: [architectures[architecture]],
    syscalls: [
      allow(allowedSyscalls.filter(isThere)),
      refuse(refusedSyscalls),
      allow(['clone'], hasNoneOf(0, namespaceBits)),
      ...namespaceBits.map((bit) => refuse(['clone'], hasBit(0, bit))),
      ...families.map((family) => allow(['socket', 'socketpair'], equals(0, family))),
      refuse(['ioctl'], maskedEquals(1, word, TIOCSTI)),
      refuse(['ioctl'], maskedEquals(1, word, TIOCLINUX)),
      ...allowOtherIoctls(),
      ...refuseSetId(['chmod', 'fchmod', 'mkdir', 'mknod', 'creat'], 1),
      ...refuseSetId(['fchmodat', 'fchmodat2', 'mkdirat', 'mknodat'], 2),
      ...refuseSetIdWhenCreating('open', 1, 2),
      ...refuseSetIdWhenCreating('openat', 2, 3),
    ],
  };
  return JSON.stringify(profile);
}

/**
 * Allows every ioctl but the two, which differ only in the last four bits. Only 32 bits are compared, as in the kernel:
 * a filter of 64 bits could be bypassed.
 */
function allowOtherIoctls(): SeccompRule[] {
  const common = TIOCSTI & ~0xf;
  const others = Array.from({ length: 16 }, (_, last) => common | last).filter(
    (request) => request !== TIOCSTI && request !== TIOCLINUX,
  );
  const differing = Array.from({ length: 28 }, (_, index) => 2 ** (index + 4));
  return [
    ...differing.map((bit) => allow(['ioctl'], maskedEquals(1, bit, (common & bit) === 0 ? bit : 0))),
    ...others.map((request) => allow(['ioctl'], maskedEquals(1, word, request))),
  ];
}
