import { type ParseArgsConfig, parseArgs } from 'node:util';
import { suggestClosest } from '../config/explain/suggest.ts';
import { globalFlags, type Invocation, UsageError } from './command.ts';
import { type CommandEntry, type LoadedCommand, loadCommand } from './commands.ts';

/** Finds the command and parses its arguments. Global flags may stand anywhere before `--`. */
export async function readInvocation(
  entries: readonly CommandEntry[],
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly command: LoadedCommand; readonly invocation: Invocation }> {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  const rest = end === -1 ? [] : argv.slice(end + 1);
  const { entry, args } = findCommand(entries, own);
  const command = await loadCommand(entry);
  const flags = { ...globalFlags, ...command.flags };
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { type, multiple = false, short }]) => [
      name,
      { type, multiple, ...(short === undefined ? {} : { short }) },
    ]),
  );
  try {
    if (command.operands?.includes('--')) assertSeparated(command, args, rest, options);
    const parsed = parseArgs({ args, options, allowPositionals: true });
    const { values } = parsed;
    const isPassed = command.operands?.includes('--') === true;
    // Elsewhere "--" ends the flags, so that an operand may begin with a dash.
    const positionals = isPassed ? parsed.positionals : [...parsed.positionals, ...rest];
    assertNoTokens([...positionals, ...Object.values(values).flat()]);
    const [first] = positionals;
    if (first !== undefined && command.operands === undefined) throw new UsageError(`unexpected argument "${first}"`);
    for (const [name, value] of Object.entries(values)) {
      for (const each of [value].flat()) assertChoice(`--${name}`, each, flags[name]?.choices);
    }
    assertChoice(nameOperand(command.operands ?? ''), first, command.operandChoices);
    return {
      command,
      invocation: { flags: values as Invocation['flags'], positionals, passthrough: isPassed ? rest : [], env },
    };
  } catch (error) {
    const hint = `Try "ambit help ${command.path.join(' ')}".`;
    if (error instanceof UsageError) throw new UsageError(error.message, error.hint ?? hint);
    if (error instanceof TypeError) throw new UsageError(explainFlagError(error.message, Object.keys(flags)), hint);
    throw error;
  }
}

/** The name of an operand without the brackets that mark it as optional: `[NAME]` becomes `NAME`. */
export const nameOperand = (operands: string): string => operands.replace(/[[\]…]/g, '');

/** Refuses a command without `--` before it. Its flags would be read as flags of Ambit. */
function assertSeparated(
  { path, operands = '' }: LoadedCommand,
  args: string[],
  rest: readonly string[],
  options: NonNullable<ParseArgsConfig['options']>,
): void {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  const allowed = operands.split(' ').findIndex((word) => word.includes('--'));
  const first = tokens.filter(({ kind }) => kind === 'positional')[allowed];
  if (first === undefined) return;
  assertNoTokens(args);
  const words = ['ambit', ...path, ...args.slice(0, first.index), '--', ...args.slice(first.index), ...rest];
  throw new UsageError(`"--" is missing before "${args[first.index]}"`, `Write: ${words.join(' ')}`);
}

/** Refuses a value that is not among the choices, with the one that was probably meant. */
function assertChoice(what: string, value: unknown, choices: readonly string[] | undefined): void {
  if (typeof value !== 'string' || choices === undefined || choices.includes(value)) return;
  const listed = choices.map((choice) => `"${choice}"`);
  const last = listed.pop();
  const all = listed.length === 0 ? last : `${listed.join(', ')} or ${last}`;
  throw new UsageError(`${what} takes ${all}, not "${value}"${suggestClosest(value, choices)}`);
}

/** Explains an error of `parseArgs`, with the flag that was probably meant. */
function explainFlagError(message: string, names: readonly string[]): string {
  const [, unknown] = /^Unknown option '(-[^']*)'/.exec(message) ?? [];
  if (unknown === undefined) return message.split('. To specify')[0] ?? message;
  return `unknown flag "${unknown}"${suggestClosest(unknown.replace(/^-+/, ''), names).replace('"', '"--')}`;
}

/** Refuses secrets where other users of the machine can read them. */
function assertNoTokens(values: readonly unknown[]): void {
  for (const value of values) {
    const [, kind, id = ''] = (typeof value === 'string' && /^amb([sk])_([a-z0-9-]+)_/.exec(value)) || [];
    if (kind === undefined) continue;
    const what = kind === 's' ? 'session' : 'key';
    throw new UsageError(
      `a ${kind === 's' ? 'token' : 'key'} is a secret, and other users can read command lines`,
      `Use the id of the ${what}, which is its second part: ${id}`,
    );
  }
}

/** Says which command was probably meant. */
export function unknownCommandError(entries: readonly CommandEntry[], words: readonly string[]): UsageError {
  const [noun = '', verb] = words;
  const verbs = entries.filter(({ path }) => path[0] === noun && path.length > 1).map(({ path }) => path[1] as string);
  if (verbs.length > 0) {
    const meant = suggestClosest(verb ?? '', verbs).replace('"', `"${noun} `);
    return new UsageError(
      verb === undefined ? `"ambit ${noun}" needs a subcommand` : `unknown command "${noun} ${verb}"${meant}`,
      `Subcommands: ${verbs.join(', ')}. Try "ambit help ${noun}".`,
    );
  }
  // Of two words that are equally close, the one that has such a subcommand was meant: "servr list" is "server list".
  const isFitting = ({ path }: CommandEntry) => verb !== undefined && path[1] === verb;
  const ordered = [...entries.filter(isFitting), ...entries];
  const nouns = [...new Set(ordered.map(({ path }) => path[0] as string))];
  return new UsageError(`unknown command "${noun}"${suggestClosest(noun, nouns)}`);
}

// Finds the command by the first arguments that are no flags.
function findCommand(
  entries: readonly CommandEntry[],
  args: readonly string[],
): { entry: CommandEntry; args: string[] } {
  const positions = positionalIndexes(args);
  for (const length of [2, 1]) {
    const at = positions.slice(0, length);
    const given = at.map((place) => args[place]);
    const entry = entries.find(
      (each) => each.path.length === length && each.path.every((word, i) => word === given[i]),
    );
    if (entry !== undefined) return { entry, args: args.filter((_, index) => !at.includes(index)) };
  }
  if (positions.length === 0) throw new UsageError('a command is missing');
  throw unknownCommandError(
    entries,
    positions.map((place) => args[place] as string),
  );
}

function positionalIndexes(args: readonly string[]): number[] {
  const indexes: number[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string;
    if (!arg.startsWith('-')) indexes.push(i);
    else if (arg === '--config' || arg === '--data-dir') i++;
    if (indexes.length === 2) break;
  }
  return indexes;
}
