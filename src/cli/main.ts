import { readFileSync } from 'node:fs';
import { isAmbitError } from '../errors.ts';
import { escapeControls } from '../lib/text/escape-controls.ts';
import { manifest } from '../package-paths.ts';
import { globalFlags, UsageError } from './command.ts';
import { type CommandEntry, commands, type LoadedCommand, loadCommand } from './commands.ts';
import { readInvocation, unknownCommandError } from './read-invocation.ts';

const reportHint =
  'Please report it at https://github.com/ambit-mcp/ambit/issues; AMBIT_DEBUG=1 shows where it happened.';

/** The person at the terminal can look, other than a client. */
const storeHint = '\n"ambit doctor" tries the store that the configuration names.';

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

/** Runs the command and returns the exit code: 0 done, 1 refused or failed, 2 wrong usage. */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (argv.length === 0) {
    process.stderr.write(renderOverview(await Promise.all(commands.map(loadCommand))));
    return 2;
  }
  if (argv[0] !== undefined && ['--version', 'version', '-v', '-V'].includes(argv[0])) {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  let help = 'ambit help';
  try {
    if (argv[0] === 'help' || argv[0] === '--help' || argv[0] === '-h') {
      const listed = await Promise.all(findHelp(argv.slice(1)).map(loadCommand));
      process.stdout.write(argv.length === 1 ? renderOverview(listed) : renderUsage(listed));
      return 0;
    }
    const group = argv[1] === '--help' || argv[1] === '-h' ? commands.filter(({ path }) => path[0] === argv[0]) : [];
    if (group.length > 1) {
      process.stdout.write(renderUsage(await Promise.all(group.map(loadCommand))));
      return 0;
    }
    const { command, invocation } = await readInvocation(commands, argv, env);
    help = `ambit help ${command.path.join(' ')}`;
    if (invocation.flags.help === true) {
      process.stdout.write(renderUsage([command]));
      return 0;
    }
    return (await command.run(invocation)) ?? 0;
  } catch (error) {
    if (error instanceof UsageError) {
      const { message, hint = `Try "${help}".` } = error;
      printError(`${message}\n${hint}`);
      return 2;
    }
    if (isAmbitError(error)) {
      const more = error.code === 'STORE_UNAVAILABLE' ? storeHint : '';
      printError(`${error.code}: ${error.message}\n${error.hint}${more}`);
    } else await printUnexpectedError(error, env);
    return 1;
  }
}

/** Prints an error that no code expected: one of the file system with its remedy, any other as a bug. */
async function printUnexpectedError(error: unknown, env: NodeJS.ProcessEnv): Promise<void> {
  // Loaded late: this is hardly ever needed.
  const [{ describeFileError }, { scrubSecrets }] = await Promise.all([
    import('../lib/fs/make-folders.ts'),
    import('../observability/log/scrub.ts'),
  ]);
  const file = describeFileError(error);
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  if (file !== undefined) {
    printError(`${file.path ?? 'A file cannot be read or written'}: ${file.meaning}\n${file.remedy}`);
  } else {
    const [firstLine = ''] = message.split('\n');
    printError(`INTERNAL: Ambit itself failed: ${scrubSecrets(`${name}: ${firstLine}`)}\n${reportHint}`);
  }
  if (env['AMBIT_DEBUG']) printError(scrubSecrets(stack ?? message));
}

/** Finds the commands that begin with these words; all of them without words. */
function findHelp(words: readonly string[]): readonly CommandEntry[] {
  const found = commands.filter(({ path }) => words.every((word, i) => path[i] === word));
  if (found.length === 0) throw unknownCommandError(commands, words);
  return found;
}

function printError(text: string): void {
  const lines = text.split('\n').map((line) => `ambit: ${escapeControls(line)}\n`);
  process.stderr.write(lines.join(''));
}

/** Lists the commands on one screen of 80 columns and 24 lines. */
function renderOverview(listed: readonly LoadedCommand[]): string {
  const names = [...new Set(listed.map(({ path: [noun = ''] }) => noun))];
  const width = Math.max(...names.map(({ length }) => length)) + 2;
  const rows = names.map((name) => {
    const group = listed.filter(({ path }) => path[0] === name);
    const verbs = group.flatMap(({ path }) => path.slice(1));
    return `  ${name.padEnd(width)}${verbs.length > 0 ? verbs.join(', ') : group[0]?.help}`;
  });
  const lines = ['Ambit, the session layer for MCP.', '', 'Usage: ambit COMMAND', ...rows];
  return `${lines.join('\n')}\n\nMore about one: "ambit help run", "ambit help session create".\n`;
}

/** Renders the help text within 80 columns. */
function renderUsage(listed: readonly LoadedCommand[]): string {
  const lines = ['Ambit, the session layer for MCP.', '', 'Usage:'];
  for (const command of listed) {
    const operands = command.operands === undefined ? '' : ` ${command.operands}`;
    lines.push(`  ambit ${command.path.join(' ')}${operands}`, `      ${command.help}`);
    for (const [name, flag] of Object.entries(command.flags)) lines.push(renderFlag(name, flag));
  }
  lines.push('', 'Everywhere:');
  for (const [name, flag] of Object.entries(globalFlags)) lines.push(renderFlag(name, flag));
  return `${lines.join('\n')}\n`;
}

function renderFlag(name: string, flag: { readonly value?: string; readonly help: string }): string {
  const spelled = `--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
  return `        ${spelled.padEnd(22)} ${flag.help}`;
}
