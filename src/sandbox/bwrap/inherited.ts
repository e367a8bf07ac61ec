import { readdirSync, readFileSync } from 'node:fs';

const closeOnExec = 0o2000000;

/**
 * Descriptors Ambit was itself started with, which every program it starts would inherit: whatever Node opens closes by
 * itself, these do not, and bwrap would pass them on into the sandbox.
 */
export function inheritedDescriptors(): number[] {
  const found: number[] = [];
  for (const name of readdirSync('/proc/self/fd')) {
    const descriptor = Number(name);
    if (descriptor <= 2) continue;
    try {
      const flags = /flags:\s*([0-7]+)/.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'latin1'))?.[1] ?? '';
      if ((Number.parseInt(flags, 8) & closeOnExec) === 0) found.push(descriptor);
    } catch {
      // The descriptor of the listing itself.
    }
  }
  return found;
}
