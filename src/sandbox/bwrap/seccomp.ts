import {
  type Architecture,
  newestCall,
  numberOf,
  refusedCalls,
  type SystemCall,
  unownedCalls,
} from './system-calls.ts';

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
/** Calls of the x32 kind have numbers from here on, and would pass by every comparison. */
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

/** The files a program makes must not run with its rights when somebody else starts them. */
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

const judged: readonly (readonly [SystemCall, readonly Step[]])[] = [
  ['clone', [loadArgument(0), ...ifAny(namespaceFlags, EPERM), answer(allow)]],
  // Their flags lie in memory, where a filter cannot look. Without them, libraries use the older calls.
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

export function isFiltered(architecture: string): architecture is Architecture {
  return Object.hasOwn(auditNames, architecture);
}

/**
 * The program that the kernel asks before each system call of a sandbox; little-endian, as both processors are. Where no
 * control group counts the memory of the sandbox, there is none that belongs to no process.
 */
export function seccompFilter(architecture: Architecture, countsMemory = true): Buffer {
  const steps: Step[] = [
    [load, 0, 0, 4],
    [jumpIfEqual, 1, 0, auditNames[architecture]],
    answer(kill),
    loadNumber,
    [jumpIfAtLeast, 0, 1, x32],
    answer(EPERM),
    [jumpIfAtLeast, 0, 1, newestCall + 1],
    answer(ENOSYS),
  ];
  for (const call of refusedCalls) {
    const number = numberOf(call, architecture);
    if (number !== null) steps.push(...ifEqual(number, EPERM));
  }
  for (const call of countsMemory ? [] : unownedCalls) {
    const number = numberOf(call, architecture);
    // Libraries look for another way then.
    if (number !== null) steps.push(...ifEqual(number, ENOSYS));
  }
  for (const [call, then] of judged) {
    const number = numberOf(call, architecture);
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
