import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { findTool } from '../common/find-program.ts';
import type { ProcessLaunch } from '../runner.ts';
import { type ResourceLimits, trialLimits } from './limits.ts';

/** A command that is started instead of another. */
export type WrappedCommand = Pick<ProcessLaunch, 'command' | 'args' | 'env'>;

/** The systemd of this machine, or of this user. */
export interface Systemd {
  /** Whether it limits several processes together, and not only each of them. */
  readonly boundsTogether: boolean;
  /** Undefined where it limits each process alone. */
  createSlice(tmpRoot: string): Slice | undefined;
  wrap(
    command: string,
    args: readonly string[],
    limits: ResourceLimits,
    helperCount: number,
    slice: Slice | undefined,
  ): WrappedCommand;
}

/** A slice of systemd, which groups the processes of one owner. */
export interface Slice {
  readonly name: string;
  /** Rejects when a limit cannot be set. */
  bound(limits: ResourceLimits, helperCount: number): Promise<void>;
  remove(): Promise<void>;
}

interface SystemdTools {
  readonly systemdRun: string;
  readonly busctl: string;
  readonly env: Readonly<Record<string, string>>;
}

const trialLimitMs = 5000;
const managerAddress = [
  'org.freedesktop.systemd1',
  '/org/freedesktop/systemd1',
  'org.freedesktop.systemd1.Manager',
] as const;
let sliceCount = 0;

/**
 * Starts a process in a scope of its own, in a slice if there is one. systemd-run becomes the program itself: same
 * process, same descriptors. The variables for systemd are removed before.
 */
export function wrapInScope(
  { systemdRun, env }: Pick<SystemdTools, 'systemdRun' | 'env'>,
  { memoryMb, pids, cpus }: ResourceLimits,
  helperCount: number,
  slice: string | undefined,
  [command, ...args]: readonly [string, ...string[]],
): WrappedCommand {
  const properties = [
    `MemoryMax=${memoryMb}M`,
    'MemorySwapMax=0',
    `TasksMax=${pids + helperCount}`,
    `CPUQuota=${Math.max(1, Math.round(cpus * 100))}%`,
  ];
  return {
    command: systemdRun,
    args: [
      ...userFlag(env),
      ...['--scope', '--quiet', '--collect'],
      ...(slice === undefined ? [] : [`--slice=${slice}`]),
      ...properties.flatMap((property) => ['-p', property]),
      ...['--', '/usr/bin/env', '-i', command, ...args],
    ],
    env,
  };
}

/** The arguments of busctl that make a slice with limits, or change an existing one. */
export function sliceArguments(
  env: Readonly<Record<string, string>>,
  slice: string,
  { memoryMb, pids, cpus }: ResourceLimits,
  helperCount: number,
  isThere: boolean,
): string[] {
  const properties = [
    ['MemoryMax', 't', String(memoryMb * 1024 * 1024)],
    ['MemorySwapMax', 't', '0'],
    ['TasksMax', 't', String(pids + helperCount)],
    ['CPUQuotaPerSecUSec', 't', String(Math.max(10_000, Math.round(cpus * 1_000_000)))],
  ];
  const given = [String(properties.length), ...properties.flat()];
  return [
    ...[...userFlag(env), 'call', ...managerAddress],
    ...(isThere
      ? ['SetUnitProperties', 'sba(sv)', slice, 'true', ...given]
      : ['StartTransientUnit', 'ssa(sv)a(sa(sv))', slice, 'fail', ...given, '0']),
  ];
}

/** The arguments of busctl that stop a slice, which removes its settings. */
export function stopSliceArguments(env: Readonly<Record<string, string>>, slice: string): string[] {
  return [...userFlag(env), 'call', ...managerAddress, 'StopUnit', 'ss', slice, 'replace'];
}

const userFlag = (env: Readonly<Record<string, string>>): string[] =>
  env['XDG_RUNTIME_DIR'] === undefined ? [] : ['--user'];

/** Undefined where there is none, or where it enforces nothing for this user. */
export async function findSystemd(host: NodeJS.ProcessEnv): Promise<Systemd | undefined> {
  const systemdRun = findTool('systemd-run', host['PATH']);
  // Without version 2 of control groups, systemd accepts limits from users and ignores them.
  if (
    systemdRun === undefined ||
    !existsSync('/run/systemd/system') ||
    !existsSync('/sys/fs/cgroup/cgroup.controllers')
  )
    return undefined;
  const env = systemdEnvironment(host, process.getuid?.() === 0);
  if (env === undefined) return undefined;
  const tools = { systemdRun, busctl: findTool('busctl', host['PATH']) ?? '/usr/bin/busctl', env };
  try {
    await runTool(wrapInScope(tools, trialLimits, 0, undefined, ['/bin/true']));
  } catch {
    return undefined;
  }
  const boundsTogether = await canUseSlices(tools);
  return {
    boundsTogether,
    createSlice: (tmpRoot) => (boundsTogether ? createSlice(tools, tmpRoot) : undefined),
    wrap: (command, args, limits, helperCount, slice) =>
      wrapInScope(tools, limits, helperCount, slice?.name, [command, ...args]),
  };
}

function createSlice(tools: SystemdTools, tmpRoot: string): Slice {
  const { env, busctl } = tools;
  // A hyphen would mean a nested slice.
  const name = `ambit${basename(tmpRoot).replace(/^instance-|[^A-Za-z0-9]/g, '')}x${++sliceCount}.slice`;
  let isThere = false;
  // The calls run one after the other: a slice must exist before it can be changed.
  let last: Promise<unknown> = Promise.resolve();
  return {
    name,
    bound(limits, helperCount) {
      const next = last.then(async () => {
        await runTool({ command: busctl, args: sliceArguments(env, name, limits, helperCount, isThere), env });
        isThere = true;
      });
      last = next.catch(() => {});
      return next;
    },
    async remove() {
      await last;
      if (isThere) await runTool({ command: busctl, args: stopSliceArguments(env, name), env }).catch(() => {});
    },
  };
}

/** Whether a slice really limits its processes, as the kernel reports from inside. */
async function canUseSlices(tools: SystemdTools): Promise<boolean> {
  const slice = createSlice(tools, `trial${process.pid}`);
  const ask = 'cat "/sys/fs/cgroup$(dirname "$(cut -d: -f3- /proc/self/cgroup)")"/memory.max';
  try {
    await slice.bound({ ...trialLimits, memoryMb: 61 }, 0);
    const said = await runTool(wrapInScope(tools, trialLimits, 0, slice.name, ['/bin/sh', '-c', ask]));
    return Number(said) === 61 * 1024 * 1024;
  } catch {
    return false;
  } finally {
    await slice.remove();
  }
}

async function runTool({ command, args, env }: WrappedCommand): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { env, timeout: trialLimitMs });
  return stdout;
}

/** The variables by which systemd-run finds the systemd of this user; undefined where there is none. */
export function systemdEnvironment(host: NodeJS.ProcessEnv, isRoot: boolean): Record<string, string> | undefined {
  if (isRoot) return {};
  const runtime = host['XDG_RUNTIME_DIR'];
  if (runtime === undefined || runtime === '') return undefined;
  return {
    XDG_RUNTIME_DIR: runtime,
    DBUS_SESSION_BUS_ADDRESS: host['DBUS_SESSION_BUS_ADDRESS'] ?? `unix:path=${join(runtime, 'bus')}`,
  };
}
