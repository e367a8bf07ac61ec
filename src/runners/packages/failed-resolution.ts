import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { refuseOffender, showWord } from './refuse-offender.ts';
import { isRegistrySpec } from './registry-spec.ts';

const mostBytes = 8 << 20;

/** Throws with the name of the offender where npm could not resolve a tree because of something that is in no registry. */
export function refuseUnresolved(said: string, cache: string): void {
  for (const [, name = '', spec] of logOf(cache).matchAll(/ silly fetch manifest (@?[^@\n]+)@([^\n]*)/g)) {
    if (!isRegistrySpec(spec)) refuseOffender(`"${showWord(name)}", which is asked for as "${showWord(spec)}"`);
  }
  const [, url] = /Unsupported URL Type "[^"]*": (\S+)/.exec(said) ?? [];
  if (url !== undefined) refuseOffender(`something that is asked for as "${showWord(url)}"`);
  const [, target, name] = /Missing target in lock file: "([^"]*)" is referenced by "([^"]*)"/.exec(said) ?? [];
  if (name !== undefined) refuseOffender(`"${showWord(name)}", which is a link to "${showWord(target)}"`);
}

/** npm writes a log of its own, with every step. */
function logOf(cache: string): string {
  try {
    const folder = join(cache, 'logs');
    const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8').slice(0, mostBytes));
    return texts.join('\n');
  } catch {
    return '';
  }
}
