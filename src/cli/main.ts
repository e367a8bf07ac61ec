import { readFileSync } from 'node:fs';
import { isAmbitError } from '../errors.ts';
import { escapeControls } from '../lib/text/escape-controls.ts';
import { manifest } from '../own-files.ts';
import { type Command, globalFlags, type Invocation, UsageFault } from './command.ts';
import { verbs } from './commands.ts';
import { readInvocation } from './read-invocation.ts';

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

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

/** The help text, within 80 columns. */
function usage(commands: readonly Command[]): string {
  const lines = ['Ambit, the session layer for MCP.', '', 'Usage:'];
  for (const command of commands) {
    const operands = command.operands === undefined ? '' : ` ${command.operands}`;
    lines.push(`  ambit ${command.path.join(' ')}${operands}`, `      ${command.help}`);
    for (const [name, flag] of Object.entries(command.flags)) lines.push(flagLine(name, flag));
  }
  lines.push('', 'Everywhere:');
  for (const [name, flag] of Object.entries(globalFlags)) lines.push(flagLine(name, flag));
  return `${lines.join('\n')}\n`;
}

function flagLine(name: string, flag: { readonly value?: string; readonly help: string }): string {
  const spelled = `--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
  return `        ${spelled.padEnd(22)} ${flag.help}`;
}
