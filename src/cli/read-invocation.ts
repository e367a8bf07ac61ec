import { parseArgs } from 'node:util';
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
  try {
    const { values, positionals } = parseArgs({
      args,
      options: Object.fromEntries(
        Object.entries(flags).map(([name, flag]) => [name, { type: flag.type, multiple: flag.multiple ?? false }]),
      ),
      allowPositionals: true,
    });
    if (positionals.length > 0 && command.operands === undefined)
      throw new UsageError(`"${positionals[0]}" is not expected`);
    if (rest.length > 0 && !command.operands?.includes('--')) throw new UsageError('nothing may stand after "--" here');
    return { command, invocation: { flags: values as Invocation['flags'], positionals, passthrough: rest, env } };
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message.split('. To specify')[0]);
    throw error;
  }
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
  const [first] = positions;
  const noun = first === undefined ? undefined : args[first];
  const subcommands = entries
    .filter((each) => each.path[0] === noun && each.path.length > 1)
    .map((each) => each.path[1]);
  if (subcommands.length > 0) throw new UsageError(`"ambit ${noun}" needs one of: ${subcommands.join(', ')}`);
  throw new UsageError(noun === undefined ? 'no command given' : `there is no command "${noun}"`);
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
