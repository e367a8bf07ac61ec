import { refusedCalls, type SystemCall, unownedCalls } from '../bwrap/system-calls.ts';
import { plainCalls } from './plain-calls.ts';

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

interface Test {
  readonly index: number;
  readonly op: string;
  readonly value: number;
  readonly valueTwo?: number;
}

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly Test[];
}

const allow = (names: readonly string[], ...args: Test[]): Rule => ({ names, action: 'SCMP_ACT_ALLOW', args });
const refuse = (names: readonly string[], ...args: Test[]): Rule => ({
  names,
  action: 'SCMP_ACT_ERRNO',
  errnoRet: EPERM,
  args,
});
const equals = (index: number, value: number): Test => ({ index, value, op: 'SCMP_CMP_EQ' });
const masked = (index: number, mask: number, value: number): Test => ({
  index,
  value: mask,
  valueTwo: value,
  op: 'SCMP_CMP_MASKED_EQ',
});
const none = (index: number, bits: readonly number[]): Test =>
  masked(
    index,
    bits.reduce((all, bit) => all + bit, 0),
    0,
  );
const has = (index: number, bit: number): Test => masked(index, bit, bit);

/** The tests of an `any of these bits` are made one by one: an engine's rule holds when all of its tests do. */
const withoutSetId = (names: readonly string[], mode: number): Rule[] => [
  allow(names, none(mode, setIdBits)),
  ...setIdBits.map((bit) => refuse(names, has(mode, bit))),
];
const withoutSetIdWhenCreating = (name: string, flags: number, mode: number): Rule[] => [
  allow([name], none(flags, createBits)),
  ...createBits.flatMap((create) => [
    allow([name], has(flags, create), none(mode, setIdBits)),
    ...setIdBits.map((bit) => refuse([name], has(flags, create), has(mode, bit))),
  ]),
];

export function isProfiled(architecture: string): boolean {
  return Object.hasOwn(architectures, architecture);
}

/**
 * The filter of the other sandbox in the words of container engines. Theirs allow tracing, and some io_uring and keys.
 * What no rule names is not there: calls newer than the list, those whose flags lie in memory, and memory of no process where
 * no control group counts it.
 */
export function seccompProfile(architecture: string, countsMemory = true): string {
  const isThere = (call: string) => countsMemory || !unownedCalls.includes(call as SystemCall);
  const profile = {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    architectures: [architectures[architecture]],
    syscalls: [
      allow(plainCalls.filter(isThere)),
      refuse(refusedCalls),
      allow(['clone'], none(0, namespaceBits)),
      ...namespaceBits.map((bit) => refuse(['clone'], has(0, bit))),
      ...families.map((family) => allow(['socket', 'socketpair'], equals(0, family))),
      refuse(['ioctl'], masked(1, word, TIOCSTI)),
      refuse(['ioctl'], masked(1, word, TIOCLINUX)),
      ...ioctlsBeside(),
      ...withoutSetId(['chmod', 'fchmod', 'mkdir', 'mknod', 'creat'], 1),
      ...withoutSetId(['fchmodat', 'fchmodat2', 'mkdirat', 'mknodat'], 2),
      ...withoutSetIdWhenCreating('open', 1, 2),
      ...withoutSetIdWhenCreating('openat', 2, 3),
    ],
  };
  return JSON.stringify(profile);
}

/**
 * Everything but the two, which differ in the last four bits alone. Only 32 bits are looked at: the kernel looks at no
 * more, and a filter that did could be passed by.
 */
function ioctlsBeside(): Rule[] {
  const common = TIOCSTI & ~0xf;
  const others = Array.from({ length: 16 }, (_, last) => common | last).filter(
    (request) => request !== TIOCSTI && request !== TIOCLINUX,
  );
  const differing = Array.from({ length: 28 }, (_, index) => 2 ** (index + 4));
  return [
    ...differing.map((bit) => allow(['ioctl'], masked(1, bit, (common & bit) === 0 ? bit : 0))),
    ...others.map((request) => allow(['ioctl'], masked(1, word, request))),
  ];
}
