import { parseArgs } from 'node:util';
import { type Command, globalFlags, type Invocation, UsageFault } from './command.ts';
import type { Verb } from './commands.ts';

/** Which command is meant, and what it was given. Global flags may stand anywhere before `--`. */
export async function readInvocation(
  verbs: readonly Verb[],
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly command: Command; readonly invocation: Invocation }> {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  const rest = end === -1 ? [] : argv.slice(end + 1);
  const { verb, words } = findVerb(verbs, own);
  const command = await verb.load();
  const flags = { ...globalFlags, ...command.flags };
  try {
    const { values, positionals } = parseArgs({
      args: words,
      options: Object.fromEntries(
        Object.entries(flags).map(([name, flag]) => [name, { type: flag.type, multiple: flag.multiple ?? false }]),
      ),
      allowPositionals: true,
    });
    if (positionals.length > 0 && command.operands === undefined)
      throw new UsageFault(`"${positionals[0]}" is not expected`);
    if (rest.length > 0 && !command.operands?.includes('--')) throw new UsageFault('nothing may stand after "--" here');
    return { command, invocation: { flags: values as Invocation['flags'], words: positionals, rest, env } };
  } catch (error) {
    if (error instanceof TypeError) throw new UsageFault(error.message.split('. To specify')[0]);
    throw error;
  }
}

// The verb is found among the words that are no flags, wherever they stand.
function findVerb(verbs: readonly Verb[], args: readonly string[]): { verb: Verb; words: string[] } {
  const places = wordPlaces(args);
  for (const length of [2, 1]) {
    const at = places.slice(0, length);
    const spoken = at.map((place) => args[place]);
    const verb = verbs.find((each) => each.path.length === length && each.path.every((word, i) => word === spoken[i]));
    if (verb !== undefined) return { verb, words: args.filter((_, index) => !at.includes(index)) };
  }
  const [first] = places;
  const noun = first === undefined ? undefined : args[first];
  const under = verbs.filter((each) => each.path[0] === noun && each.path.length > 1).map((each) => each.path[1]);
  if (under.length > 0) throw new UsageFault(`"ambit ${noun}" needs one of: ${under.join(', ')}`);
  throw new UsageFault(noun === undefined ? 'no command given' : `there is no command "${noun}"`);
}

function wordPlaces(args: readonly string[]): number[] {
  const places: number[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string;
    if (!arg.startsWith('-')) places.push(i);
    else if (arg === '--config' || arg === '--data-dir') i++;
    if (places.length === 2) break;
  }
  return places;
}
