import type { RegistryServer } from './registry-servers.ts';

const heading = '\n## Servers from npm and PyPI\n';

/** Returns the part of the page about servers from registries; empty where there is none. */
export function readRegistryPart(page: string): string {
  const at = page.indexOf(heading);
  return at === -1 ? '' : page.slice(at);
}

/** Writes the part of the page about servers from registries. Every listed server works; the test fails otherwise. */
export function writeRegistryPart(servers: readonly RegistryServer[]): string {
  const rows = servers.map(({ tool, spec, author, call }) => {
    const at = spec.indexOf('@', 1);
    return `| \`${tool} ${spec.slice(0, at)}\` | ${author} | ${spec.slice(at + 1)} | \`${call.name}\` | ✓ | ✓ |`;
  });
  return `${[
    heading,
    'These servers were started as a new user starts them, with an empty home folder: `ambit run --trust direct` and',
    '`ambit run --trust sandboxed` in front of the command. ✓ means that the list of tools and the answer of one call are the',
    'same as without Ambit. A server that needs the network or a key was called with wrong arguments, which it refuses by',
    'itself. `npm run proof` repeats all this for npm, and for PyPI where `uvx` is on the PATH.',
    '',
    '| command | author | version | call | direct | sandboxed |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')}\n`;
}
