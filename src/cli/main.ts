import { isAmbitError } from '../errors.ts';
import { escapeControls } from '../escape-controls.ts';
import { type Command, type Invocation, UsageFault } from './command.ts';
import { explainCommand } from './explain.ts';
import { importCommand } from './import.ts';
import { readInvocation } from './read-invocation.ts';
import { resolveCommand } from './resolve.ts';
import { runCommand } from './run.ts';
import { serveCommand } from './serve.ts';
import { serverApprove } from './server-approve.ts';
import { serverCheck } from './server-check.ts';
import { serverList } from './server-list.ts';
import { sessionCreate } from './session-create.ts';
import { sessionEnd } from './session-end.ts';
import { sessionList } from './session-list.ts';
import { sessionRestrict } from './session-restrict.ts';
import { sessionShow } from './session-show.ts';
import { stdioCommand } from './stdio.ts';
import { usage } from './usage.ts';
import { version } from './version.ts';
import { workspaceList } from './workspace-list.ts';
import { workspaceShow } from './workspace-show.ts';

const commands: readonly Command[] = [
  serveCommand,
  stdioCommand,
  runCommand,
  sessionCreate,
  sessionList,
  sessionShow,
  sessionEnd,
  sessionRestrict,
  resolveCommand,
  explainCommand,
  serverList,
  serverCheck,
  serverApprove,
  workspaceList,
  workspaceShow,
  importCommand,
];

/** Finds the command and gives back the exit code: 0 done, 1 refused or failed, 2 wrong usage. */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (argv.length === 0 || argv[0] === 'help' || argv[0] === '--help' || argv[0] === '-h') {
    (argv.length === 0 ? process.stderr : process.stdout).write(usage(commands));
    return argv.length === 0 ? 2 : 0;
  }
  if (argv[0] === '--version' || argv[0] === 'version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  let invocation: Invocation;
  let command: Command;
  try {
    ({ command, invocation } = readInvocation(commands, argv, env));
  } catch (error) {
    if (!(error instanceof UsageFault)) throw error;
    complain(`${error.message}\nTry "ambit help".`);
    return 2;
  }
  if (invocation.flags.help === true) {
    process.stdout.write(usage([command]));
    return 0;
  }
  try {
    return await command.run(invocation);
  } catch (error) {
    if (error instanceof UsageFault) {
      complain(`${error.message}\nTry "ambit help".`);
      return 2;
    }
    if (!isAmbitError(error)) throw error;
    complain(`${error.code}: ${error.message}\n${error.hint}`);
    return 1;
  }
}

function complain(text: string): void {
  const lines = text.split('\n').map((line) => `ambit: ${escapeControls(line)}\n`);
  process.stderr.write(lines.join(''));
}
