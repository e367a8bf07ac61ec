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
    'These servers were started with an empty home folder, with `ambit run --trust direct` and `ambit run --trust sandboxed` in',
    'front of the command. ✓ means that the tool list and the result of one call are the same as without Ambit. Servers that need the',
    'network or an API key were called with invalid arguments, which the server itself refuses. `npm run proof` repeats these tests',
    'for npm, and for PyPI if `uvx` is on the PATH.',
    '',
    '| command | author | version | call | direct | sandboxed |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')}\n`;
}
