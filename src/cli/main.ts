import { readFileSync } from 'node:fs';
import { isAmbitError } from '../errors.ts';
import { escapeControls } from '../lib/text/escape-controls.ts';
import { manifest } from '../package-paths.ts';
import { UsageError } from './command.ts';
import { commands } from './commands.ts';
import { isNoun, renderHelp } from './help.ts';
import { paintText } from './io/output.ts';
import { readInvocation } from './read-invocation.ts';

const reportHint = 'Please report it at https://github.com/ambit-mcp/ambit/issues; AMBIT_DEBUG=1 shows a stack trace.';

/** The person at the terminal can look, other than a client. */
const storeHint = '\n"ambit doctor" tests the configured store.';

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

/** Runs the command and returns the exit code: 0 done, 1 refused or failed, 2 wrong usage. */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (argv[0] !== undefined && ['--version', 'version', '-v', '-V'].includes(argv[0])) {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  let help = 'ambit help';
  try {
    const words = findHelpWords(argv);
    if (words !== undefined) {
      process.stdout.write(await renderHelp(words));
      return 0;
    }
    const { command, invocation } = await readInvocation(commands, argv, env);
    help = `ambit help ${command.path.join(' ')}`;
    if (invocation.flags.help === true) {
      process.stdout.write(await renderHelp(command.path));
      return 0;
    }
    return (await command.run(invocation)) ?? 0;
  } catch (error) {
    if (error instanceof UsageError) {
      const { message, hint = `Try "${help}".` } = error;
      printError(`${message}\n${hint}`);
      return 2;
    }
    // Ctrl-C and Ctrl-D at a question. Commands ask before they change anything.
    if (error instanceof Error && error.name === 'AbortError' && error.message.startsWith('Aborted with Ctrl')) {
      process.stderr.write('\n');
      printError('Cancelled. Nothing was changed.');
      return 1;
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
    printError(`INTERNAL: Internal error in Ambit: ${scrubSecrets(`${name}: ${firstLine}`)}\n${reportHint}`);
  }
  if (env['AMBIT_DEBUG']) printError(scrubSecrets(stack ?? message));
}

/** Finds what help is asked for; undefined when a command is to run. `ambit` and `ambit session` alone ask for help. */
function findHelpWords(argv: readonly string[]): readonly string[] | undefined {
  const isHelp = (word: string | undefined) => word === '--help' || word === '-h';
  const [first, second] = argv;
  if (first === undefined || isHelp(first)) return [];
  if (first === 'help') return argv.slice(1).filter((word) => !isHelp(word));
  if (isNoun(first) && (second === undefined || isHelp(second))) return [first];
  return undefined;
}

/** Prints an error with its hint below it. */
function printError(text: string): void {
  const lines = escapeWorkingFolder(text)
    .split('\n')
    .map((line, i) => {
      const prefix = paintText(i === 0 ? 'red' : 'dim', 'ambit:', process.stderr);
      return `${prefix} ${escapeControls(line)}\n`;
    });
  process.stderr.write(lines.join(''));
}

/** Escapes line ends in the name of the working directory: with them, a folder of an archive could forge lines. */
function escapeWorkingFolder(text: string): string {
  try {
    const folder = process.cwd();
    return text.replaceAll(folder, escapeControls(folder));
  } catch {
    // The folder was removed.
    return text;
  }
}
