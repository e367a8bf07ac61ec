import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readStart } from './read-fetched.ts';
import { refuseOffender, showWord } from './refuse-offender.ts';
import { isRegistrySpec } from './registry-spec.ts';

const mostBytes = 8 << 20;
/** npm writes one for each time it is run. */
const mostLogs = 4;

/** Throws with the name of the offender where a tool could not resolve a tree because of something that is in no registry. */
export function refuseUnresolved(said: string, cache: string): void {
  const byBun = said.matchAll(/^error: (@?[^@\s]+)@(\S+) failed to resolve$/gm);
  for (const [, name = '', spec] of [...fetchesIn(logOf(cache)), ...byBun]) {
    if (!isRegistrySpec(spec)) refuseOffender(`"${showWord(name)}", which is asked for as "${showWord(spec)}"`);
  }
  const [, found, asked] = /Package `([^`]+)` was included as a URL dependency.*?`[^`]* @ ([^`]*)`/s.exec(said) ?? [];
  if (found !== undefined) refuseOffender(`"${showWord(found)}", which is asked for as "${showWord(asked)}"`);
  const [, builtByUv] = /Wheels are required for `([^`]+)` because building/.exec(said) ?? [];
  if (builtByUv !== undefined) refuseOffender(`"${showWord(builtByUv)}", which has to be built`);
  const [, url] = /Unsupported URL Type "[^"]*": (\S+)/.exec(said) ?? [];
  if (url !== undefined) refuseOffender(`something that is asked for as "${showWord(url)}"`);
  const [, outside] = /invalid lockfile entry: "([^"]*)" resolves outside/.exec(said) ?? [];
  if (outside !== undefined) refuseOffender(`"${showWord(outside)}", which lies outside of its folder`);
  const [, target, name] = /Missing target in lock file: "([^"]*)" is referenced by "([^"]*)"/.exec(said) ?? [];
  if (name !== undefined) refuseOffender(`"${showWord(name)}", which is a link to "${showWord(target)}"`);
}

const fetching = ' silly fetch manifest ';

/** What npm asked the registry for, by the lines of its log. The names in them are a stranger's. */
function fetchesIn(log: string): RegExpExecArray[] {
  return log.split('\n').flatMap((line) => {
    const at = line.indexOf(fetching);
    const asked = at === -1 ? null : /^(@?[^@]+)@(.*)$/s.exec(line.slice(at + fetching.length));
    return asked === null ? [] : [asked];
  });
}

/** npm writes a log of its own, with every step. */
function logOf(cache: string): string {
  try {
    const folder = join(cache, 'logs');
    if (!lstatSync(folder).isDirectory()) return '';
    const names = readdirSync(folder).slice(0, mostLogs);
    return names.map((name) => readStart(join(folder, name), mostBytes).toString('utf8')).join('\n');
  } catch {
    return '';
  }
}
