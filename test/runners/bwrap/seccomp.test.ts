import { describe, expect, test } from 'vitest';
import { isFiltered, seccompFilter } from '../../../src/runners/bwrap/seccomp.ts';
import { newestCall, numberOf, refusedCalls, type SystemCall } from '../../../src/runners/bwrap/system-calls.ts';

const allow = 0x7fff0000;
const kill = 0x80000000;
const errno = (number: number) => 0x00050000 | number;
const [EPERM, ENOSYS, EAFNOSUPPORT] = [errno(1), errno(38), errno(97)];
const audit = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** What the kernel would do with the program. */
function run(program: Buffer, arch: number, number: number, args: readonly number[] = []): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(arch >>> 0, 4);
  for (const [index, value] of args.entries()) data.writeBigUInt64LE(BigInt(value), 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(at * 8);
    const [ifTrue, ifFalse] = [program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3)];
    const value = program.readUInt32LE(at * 8 + 4);
    if (code === 0x06) return value;
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) at += accumulator === value ? ifTrue : ifFalse;
    else if (code === 0x35) at += accumulator >= value ? ifTrue : ifFalse;
    else if (code === 0x45) at += (accumulator & value) !== 0 ? ifTrue : ifFalse;
    else throw new Error(`not a step: ${code}`);
  }
  throw new Error('it ran past its end');
}

describe.each(['x64', 'arm64'] as const)('the filter for %s', (architecture) => {
  const program = seccompFilter(architecture);
  const call = (name: SystemCall, ...args: number[]) => {
    const number = numberOf(name, architecture);
    return number === null ? undefined : run(program, audit[architecture], number, args);
  };

  test('refuses each call on the list, and lets every call pass that is not spoken of', () => {
    const numbers = new Map(refusedCalls.map((name) => [numberOf(name, architecture), name]));
    const wrong: string[] = [];
    for (const [number, name] of numbers) {
      if (number !== null && run(program, audit[architecture], number) !== EPERM) wrong.push(name);
    }
    expect(wrong).toEqual([]);
    const unasked = ['read', 'write', 'close', 'mmap', 'futex', 'execve', 'exit_group'] as const;
    const known = { x64: [0, 1, 3, 9, 202, 59, 231], arm64: [63, 64, 57, 222, 98, 221, 94] }[architecture];
    for (const [index] of unasked.entries()) {
      expect(run(program, audit[architecture], known[index] as number)).toBe(allow);
    }
  });

  test('no two calls have the same number', () => {
    const numbers = refusedCalls.map((name) => numberOf(name, architecture)).filter((number) => number !== null);
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  test('ends whoever speaks in the numbers of another processor', () => {
    const other = architecture === 'x64' ? audit.arm64 : audit.x64;
    for (const arch of [other, 0x40000003, 0]) expect(run(program, arch, 0)).toBe(kill);
  });

  test('knows no calls of the x32 kind, and none that is newer than itself', () => {
    expect(run(program, audit[architecture], 0x40000000 + 101)).toBe(EPERM);
    expect(run(program, audit[architecture], 0xffffffff)).toBe(EPERM);
    expect(run(program, audit[architecture], newestCall)).toBe(allow);
    expect(run(program, audit[architecture], newestCall + 1)).toBe(ENOSYS);
  });

  test('lets threads and processes be made, but no namespaces', () => {
    expect(call('clone', 0x003d0f00)).toBe(allow);
    expect(call('clone', 17)).toBe(allow);
    for (const flag of [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(call('clone', flag | 17), flag.toString(16)).toBe(EPERM);
    }
    expect(call('clone3')).toBe(ENOSYS);
  });

  test('lets modes be set, but none that lend the rights of an account', () => {
    expect(call('fchmod', 3, 0o755)).toBe(allow);
    expect([call('fchmod', 3, 0o4755), call('fchmod', 3, 0o2755)]).toEqual([EPERM, EPERM]);
    expect([call('fchmodat', 3, 0, 0o4755), call('fchmodat2', 3, 0, 0o4755)]).toEqual([EPERM, EPERM]);
    expect([call('mknodat', 3, 0, 0o104755), call('mkdirat', 3, 0, 0o2755)]).toEqual([EPERM, EPERM]);
    // What stands where the mode would be means nothing while no file is made.
    expect(call('openat', 3, 0, 0, 0o4755)).toBe(allow);
    expect(call('openat', 3, 0, 0o101, 0o644)).toBe(allow);
    expect(call('openat', 3, 0, 0o101, 0o4755)).toBe(EPERM);
    expect(call('openat', 3, 0, 0o20000000 | 0o1, 0o4755)).toBe(EPERM);
    expect(call('openat2')).toBe(ENOSYS);
    if (architecture === 'arm64') return;
    expect([call('chmod', 0, 0o4755), call('creat', 0, 0o4755), call('open', 0, 0o101, 0o4755)]).toEqual(
      Array(3).fill(EPERM),
    );
  });

  test('lets sockets of four families be made, and keeps a terminal from being typed into', () => {
    for (const family of [1, 2, 10, 16]) expect(call('socket', family, 1, 0)).toBe(allow);
    for (const family of [0, 17, 31, 38, 40]) expect(call('socket', family, 1, 0), String(family)).toBe(EAFNOSUPPORT);
    expect(call('ioctl', 0, 0x5401)).toBe(allow);
    expect([call('ioctl', 0, 0x5412), call('ioctl', 0, 0x541c)]).toEqual([EPERM, EPERM]);
  });
});

test('there is none for another processor', () => {
  expect(['x64', 'arm64', 'arm', 'ia32', 'riscv64', 'constructor'].map(isFiltered)).toEqual([
    true,
    true,
    ...Array(4).fill(false),
  ]);
});
