import { describe, expect, test } from 'vitest';
import { hasSeccompFilter, seccompFilter } from '../../../src/sandbox/bwrap/seccomp-filter.ts';
import { dangerousCalls, type JudgedCall, judgedCalls, judgements } from './dangerous-calls.ts';

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
  const column = architecture === 'x64' ? 0 : 1;
  const ask = (number: number, args: readonly number[] = []) => run(program, audit[architecture], number, args);

  test('refuses each dangerous call, and no other whatever its arguments are', () => {
    const refused = Array.from({ length: 471 }, (_, number) => number).filter((number) => ask(number) === EPERM);
    const expected = Object.values(dangerousCalls).flatMap((numbers) => numbers[column] ?? []);
    expect(refused).toEqual(expected.sort((one, other) => one - other));
  });

  test('S8: refuses memory of no process unless a control group counts it', () => {
    const strict = seccompFilter(architecture, false);
    const differing = Array.from({ length: 471 }, (_, number) => number).filter(
      (number) => run(strict, audit[architecture], number) !== ask(number),
    );
    expect(differing).toEqual(architecture === 'x64' ? [29, 319, 447] : [194, 279, 447]);
    for (const number of differing) expect(run(strict, audit[architecture], number)).toBe(ENOSYS);
  });

  test('checks the other calls by their arguments', () => {
    const meaning = { allowed: allow, refused: EPERM, 'not there': ENOSYS, 'no such family': EAFNOSUPPORT };
    const known = judgements.filter(([call]) => judgedCalls[call][column] !== null);
    const verdicts = known.map(([call, args]) => [call, args, ask(judgedCalls[call][column] as number, args)]);
    expect(verdicts).toEqual(known.map(([call, args, verdict]) => [call, args, meaning[verdict]]));
    expect(new Set(judgements.map(([call]) => call))).toEqual(new Set(Object.keys(judgedCalls) as JudgedCall[]));
  });

  test('kills a process that uses the numbers of another processor', () => {
    const other = architecture === 'x64' ? audit.arm64 : audit.x64;
    for (const arch of [other, 0x40000003, 0]) expect(run(program, arch, 0)).toBe(kill);
  });

  test('refuses calls of the x32 ABI, and newer ones than it knows', () => {
    for (const number of [0x40000000, 0x40000000 + 101, 0xffffffff]) expect(ask(number)).toBe(EPERM);
    // 470 is `listns`; the calls after it were not looked at.
    expect([470, 471, 472, 0x3fffffff].map((number) => ask(number))).toEqual([allow, ENOSYS, ENOSYS, ENOSYS]);
  });
});

test('there is none for another processor', () => {
  expect(['x64', 'arm64', 'arm', 'ia32', 'riscv64', 'constructor'].map(hasSeccompFilter)).toEqual([
    true,
    true,
    ...Array(4).fill(false),
  ]);
});
