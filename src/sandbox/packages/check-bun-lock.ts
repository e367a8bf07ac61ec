import type { NpmSources } from './npm-sources.ts';
import { hostOf } from './package-sources.ts';
import { refuseOffender, showWord } from './refuse-offender.ts';
import { isRegistrySpec } from './registry-spec.ts';

const version = /^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?$/;
const hash = /^sha(?:1|256|384|512)-[A-Za-z0-9+/]+={0,2}$/;
const groups = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;

/** Throws, with the name of the offender, unless every package in the lock file of Bun is a tarball of a registry with its hash. */
export function checkBunLock(text: string, { hosts }: Pick<NpmSources, 'hosts'>): void {
  const { packages } = JSON.parse(withoutTrailingCommas(text)) as { packages?: Record<string, unknown> };
  for (const [name, entry] of Object.entries(packages ?? {})) {
    const [ident, from, info, integrity] = Array.isArray(entry) ? (entry as unknown[]) : [];
    const found = typeof ident === 'string' ? ident.slice(ident.lastIndexOf('@') + 1) : '';
    if (!version.test(found) || typeof from !== 'string' || typeof info !== 'object' || info === null) {
      refuseOffender(`"${showWord(name)}", which is "${showWord(ident)}" and in no registry`);
    }
    if (from !== '' && !(URL.canParse(from) && hosts.includes(hostOf(new URL(from))))) {
      refuseOffender(`"${showWord(name)}", which comes from ${showWord(from)} and not from ${hosts.join(', ')}`);
    }
    if (typeof integrity !== 'string' || !hash.test(integrity)) {
      refuseOffender(`"${showWord(name)}", of which the registry gives no hash`);
    }
    checkRequests(name, info as Record<string, unknown>);
  }
}

function checkRequests(name: string, info: Readonly<Record<string, unknown>>): void {
  const optional = new Set([info['optionalPeers']].flat());
  for (const group of groups) {
    for (const [wanted, spec] of Object.entries((info[group] ?? {}) as object)) {
      if (isRegistrySpec(spec) || (group === 'peerDependencies' && optional.has(wanted))) continue;
      refuseOffender(`"${showWord(wanted)}", which "${showWord(name)}" asks for as "${showWord(spec)}"`);
    }
  }
}

/** Bun writes a comma after the last of several, which JSON does not know. */
function withoutTrailingCommas(text: string): string {
  return text.replace(/("(?:\\.|[^"\\])*"?)|,(?=\s*[\]}])/gs, (_, quoted?: string) => quoted ?? '');
}
