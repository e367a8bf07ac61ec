import { formatBytes, formatCount, formatDuration } from './format.ts';

const mega = 1_048_576;

/** The limits of a sandbox, as `servers.*.sandbox` and the control API name them. */
const known: Readonly<Record<string, { readonly label: string; readonly format: (value: number) => string }>> = {
  memoryMb: { label: 'Memory', format: (value) => formatBytes(value * mega) },
  pids: { label: 'Processes', format: formatCount },
  cpus: { label: 'CPU', format: (value) => `${value} ${value === 1 ? 'core' : 'cores'}` },
  fileMb: { label: 'File size', format: (value) => formatBytes(value * mega) },
  openFiles: { label: 'Open files', format: formatCount },
  wallSeconds: { label: 'Running time', format: (value) => formatDuration(value * 1000) },
};

export function nameLimit(name: string): string {
  return known[name]?.label ?? name;
}

interface SandboxLimit {
  readonly name: string;
  readonly value: number;
  readonly mechanism: string;
}

/** Writes a limit with what enforces it, such as `Memory 512 MiB (cgroup v1)`. */
export function describeLimit({ name, value, mechanism }: SandboxLimit): string {
  return `${nameLimit(name)} ${known[name]?.format(value) ?? value} (${mechanism})`;
}
