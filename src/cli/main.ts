import { isAmbitError } from '../errors.ts';
import { escapeControls } from '../lib/text/escape-controls.ts';
import { type Command, type Invocation, UsageFault } from './command.ts';
import { version } from './commands/version.ts';
import { readInvocation } from './read-invocation.ts';
import { usage } from './usage.ts';
import { verbs } from './verbs.ts';

/** Finds the command and gives back the exit code: 0 done, 1 refused or failed, 2 wrong usage. */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (argv.length === 0 || argv[0] === 'help' || argv[0] === '--help' || argv[0] === '-h') {
    (argv.length === 0 ? process.stderr : process.stdout).write(
      usage(await Promise.all(verbs.map((verb) => verb.load()))),
    );
    return argv.length === 0 ? 2 : 0;
  }
  if (argv[0] === '--version' || argv[0] === 'version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  let invocation: Invocation;
  let command: Command;
  try {
    ({ command, invocation } = await readInvocation(verbs, argv, env));
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
