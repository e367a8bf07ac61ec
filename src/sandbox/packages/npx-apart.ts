import { writeFileSync } from 'node:fs';
import { basename, delimiter, isAbsolute, join } from 'node:path';
import { withoutProjectFolders } from '../common/look-up.ts';

/** How a process is started, as far as npx matters. */
export interface StartedByNpx {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Private to the process. */
  readonly tmpDir: string;
}

/** Only root writes there. */
const neutral = '/';
/** The operator asks for something of the workspace, or for another place. */
const local = /^(?:\.|file:|~|--no$|--no-install$|--offline$|--prefix|-C$|-w$|--workspace)/;

/**
 * Starts npx so that the workspace has no say in what runs. In the workspace npx would prefer its `node_modules`, obey
 * its `.npmrc` and put its `node_modules/.bin` on PATH, and a sandboxed server may have written all of them. So npx runs
 * in a folder that only root writes. The shell by which npm starts the server then enters the workspace.
 */
export function startNpxApart<Start extends StartedByNpx>(start: Start): Start {
  const { command, args, env, cwd, tmpDir } = start;
  if (basename(command) !== 'npx' || (command.includes('/') && !isAbsolute(command)) || asksForLocal(args))
    return start;
  const shell = join(tmpDir, 'enter-workspace');
  writeFileSync(shell, enterScript(cwd), { flag: 'wx', mode: 0o700 });
  return {
    ...start,
    args: [`--prefix=${neutral}`, `--script-shell=${shell}`, ...args],
    env: { ...env, PATH: withoutRelative(withoutProjectFolders(env['PATH'])) },
    cwd: neutral,
  };
}

function asksForLocal(args: readonly string[]): boolean {
  const first = args.findIndex((arg) => !arg.startsWith('-'));
  return args.slice(0, first === -1 ? args.length : first + 1).some((arg) => local.test(arg));
}

/** What npm says of its own folder is not true of the workspace, and is not passed on. */
function enterScript(workspace: string): string {
  const quoted = `'${workspace.replaceAll("'", `'\\''`)}'`;
  return `#!/bin/sh
cd -- ${quoted} || exit 126
INIT_CWD=${quoted}
export INIT_CWD
unset npm_config_prefix npm_config_local_prefix npm_config_script_shell
exec /bin/sh "$@"
`;
}

function withoutRelative(searchPath: string): string {
  return searchPath.split(delimiter).filter(isAbsolute).join(delimiter);
}
