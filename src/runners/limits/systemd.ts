import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { lookUp } from '../look-up.ts';
import type { Limits } from './limits.ts';

/** A command to be started in place of another. */
export interface Wrapped {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Systemd {
  wrap(command: string, args: readonly string[], limits: Limits, besides: number): Wrapped;
}

const trialLimitMs = 5000;

/**
 * The systemd of this machine, or of this user, can put a process in a group of its own. It becomes the program itself:
 * same process, same descriptors. What it needs to find systemd is taken away again before.
 */
export function wrapped(
  systemdRun: string,
  env: Readonly<Record<string, string>>,
  { memoryMb, pids, cpus }: Limits,
  besides: number,
  [command, ...args]: readonly [string, ...string[]],
): Wrapped {
  const whose = env['XDG_RUNTIME_DIR'] === undefined ? [] : ['--user'];
  const properties = [
    `MemoryMax=${memoryMb}M`,
    'MemorySwapMax=0',
    `TasksMax=${pids + besides}`,
    `CPUQuota=${Math.max(1, Math.round(cpus * 100))}%`,
  ];
  return {
    command: systemdRun,
    args: [
      ...whose,
      ...['--scope', '--quiet', '--collect'],
      ...properties.flatMap((property) => ['-p', property]),
      ...['--', '/usr/bin/env', '-i', command, ...args],
    ],
    env,
  };
}

/** Undefined where there is none, or where it bounds nothing for this user. */
export async function findSystemd(host: NodeJS.ProcessEnv): Promise<Systemd | undefined> {
  const systemdRun = lookUp('systemd-run', host['PATH']);
  // Without version 2 of control groups it takes limits from users and does nothing about them.
  if (
    systemdRun === undefined ||
    !existsSync('/run/systemd/system') ||
    !existsSync('/sys/fs/cgroup/cgroup.controllers')
  )
    return undefined;
  const env = environmentFor(host, process.getuid?.() === 0);
  if (env === undefined) return undefined;
  const wrap: Systemd['wrap'] = (command, args, limits, besides) =>
    wrapped(systemdRun, env, limits, besides, [command, ...args]);
  const trial = wrap('/bin/true', [], { memoryMb: 64, pids: 16, cpus: 1, fileMb: 1, openFiles: 1, wallSeconds: 1 }, 0);
  try {
    await promisify(execFile)(trial.command, trial.args, { env: trial.env, timeout: trialLimitMs });
    return { wrap };
  } catch {
    return undefined;
  }
}

export function environmentFor(host: NodeJS.ProcessEnv, isRoot: boolean): Record<string, string> | undefined {
  if (isRoot) return {};
  const runtime = host['XDG_RUNTIME_DIR'];
  if (runtime === undefined || runtime === '') return undefined;
  return {
    XDG_RUNTIME_DIR: runtime,
    DBUS_SESSION_BUS_ADDRESS: host['DBUS_SESSION_BUS_ADDRESS'] ?? `unix:path=${join(runtime, 'bus')}`,
  };
}
