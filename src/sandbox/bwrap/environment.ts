import { tmpFolder, user } from './profile.ts';

/** What every program in a sandbox finds, whatever Ambit itself has; what is configured goes before it. */
export function sandboxEnvironment(
  told: Readonly<Record<string, string>>,
  searched: readonly string[],
): Record<string, string> {
  return {
    PATH: [...searched, '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
    HOME: user.home,
    LANG: 'C.UTF-8',
    ...told,
    TMPDIR: tmpFolder,
  };
}
