import { globalFlags } from './command.ts';
import {
  commands,
  type LoadedCommand,
  loadCommand,
  nounSummaries,
  overviewGroups,
  overviewSummaries,
} from './commands.ts';
import { findTextWidth, paintText, wrapText } from './io/output.ts';
import { nameOperand, unknownCommandError } from './read-invocation.ts';

const summary = 'Ambit is an MCP gateway. It runs every tool call in a session with fixed rights.';
const documentation = 'https://github.com/ambit-mcp/ambit/tree/main/docs';
const indent = 2;

/** Renders the help for these words: the overview, every command, one group of commands, or one command. */
export async function renderHelp(words: readonly string[]): Promise<string> {
  if (words.length === 0 || words[0] === 'help') return renderOverview();
  if (words.length === 1 && words[0] === 'all') return renderAllCommands();
  const found = commands.filter(({ path }) => words.every((word, i) => path[i] === word));
  const [first] = found;
  if (first === undefined) throw unknownCommandError(commands, words);
  if (words.length === first.path.length) return renderCommand(await loadCommand(first));
  return renderNoun(words[0] as string, await Promise.all(found.map(loadCommand)));
}

/** Whether these words name a group of commands, such as `session`. */
export function isNoun(word: string): boolean {
  return commands.some(({ path }) => path.length > 1 && path[0] === word);
}

/** Renders the most important commands on one screen of 80 columns and 24 lines. */
function renderOverview(): string {
  const nouns = listNouns();
  const groups = overviewGroups.map(({ title, nouns: wanted }) => ({
    title,
    shown: wanted.filter((noun) => nouns.includes(noun)),
  }));
  const shown = groups.flatMap((group) => group.shown);
  const width = Math.max(...shown.map(({ length }) => length)) + 2;
  const rows = groups.flatMap(({ title, shown: names }) => [
    paintText('bold', title),
    ...names.flatMap((noun) => renderRow(noun, width, nounSummaries[noun] ?? overviewSummaries[noun] ?? '')),
    '',
  ]);
  const others = nouns.filter((noun) => !shown.includes(noun)).sort();
  return joinLines([
    summary,
    '',
    'Usage: ambit COMMAND [FLAGS]',
    '',
    ...rows,
    ...renderOthers(others),
    '',
    'Run "ambit help COMMAND" for one command, "ambit help all" for every command.',
    `Documentation: ${documentation}`,
  ]);
}

function renderOthers(others: readonly string[]): string[] {
  const title = 'Other commands';
  const lines = wrapText(others.join(', '), findTextWidth() - title.length - indent);
  return lines.map((line, i) => `${i === 0 ? paintText('bold', title) : ' '.repeat(title.length)}  ${line}`);
}

/** Renders every command with one line of help. */
async function renderAllCommands(): Promise<string> {
  const all = await Promise.all(commands.map(loadCommand));
  const width = Math.max(...all.map(({ path }) => path.join(' ').length)) + 2;
  const nouns = listNouns().filter(isNoun);
  const groups = [
    all.filter(({ path }) => path.length === 1),
    ...nouns.map((noun) => all.filter(({ path }) => path.length > 1 && path[0] === noun)),
  ];
  const rows = groups.flatMap((group) => [
    ...group.flatMap(({ path, help }) => renderRow(path.join(' '), width, help)),
    '',
  ]);
  return joinLines(['Usage: ambit COMMAND [FLAGS]', '', ...rows, ...renderFlags('Global flags', globalFlags)]);
}

/** Renders the subcommands of a noun, without their flags. */
function renderNoun(noun: string, listed: readonly LoadedCommand[]): string {
  const names = listed.map(({ path, operands = '' }) =>
    [...path.slice(1), operands.replace(/ \[--.*/, '')].join(' ').trim(),
  );
  const width = Math.min(Math.max(...names.map(({ length }) => length)) + 2, 24);
  return joinLines([
    nounSummaries[noun] ?? `Commands of "ambit ${noun}"`,
    '',
    `Usage: ambit ${noun} COMMAND [FLAGS]`,
    '',
    paintText('bold', 'Commands'),
    ...listed.flatMap(({ help }, i) => renderRow(names[i] as string, width, help)),
    '',
    `Run "ambit help ${noun} COMMAND" for the flags of one command.`,
  ]);
}

function renderCommand({ path, operands, operandChoices = [], help, flags }: LoadedCommand): string {
  const hasFlags = Object.keys(flags).length > 0;
  // Flags behind "--" would belong to the other command.
  const [own = '', passed = ''] = (operands ?? '').split(/ (?=\[?-- )/);
  const [before, behind] = own.startsWith('--') ? ['', own] : [own, passed];
  const places = [before.trim(), hasFlags ? '[FLAGS]' : '', behind].filter((place) => place !== '');
  return joinLines([
    help,
    '',
    `Usage: ${['ambit', ...path, ...places].join(' ')}`,
    '',
    ...(operandChoices.length > 0 ? [...renderChoices(operands ?? '', operandChoices), ''] : []),
    ...(hasFlags ? [...renderFlags('Flags', flags), ''] : []),
    ...renderFlags('Global flags', globalFlags),
  ]);
}

function renderChoices(operands: string, choices: readonly string[]): string[] {
  const name = nameOperand(operands);
  return [paintText('bold', 'Arguments'), ...renderRow(name, name.length + 2, choices.join(', '))];
}

function renderFlags(title: string, flags: LoadedCommand['flags']): string[] {
  const rows = Object.entries(flags).map(([name, flag]) => {
    const short = flag.short === undefined ? '' : `-${flag.short}, `;
    const value = flag.value === undefined ? '' : ` ${flag.value}`;
    return [`${short}--${name}${value}`, flag.multiple ? `${flag.help}; repeatable` : flag.help] as const;
  });
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  return [paintText('bold', title), ...rows.flatMap(([name, help]) => renderRow(name, width, help))];
}

/** Renders a name and its help, which continues on further lines where it is long. */
function renderRow(name: string, width: number, help: string): string[] {
  const [first = '', ...more] = wrapText(help, findTextWidth() - indent - width);
  const start = ' '.repeat(indent);
  const further = more.map((line) => `${start}${' '.repeat(width)}${line}`);
  if (name.length > width - 2) return [`${start}${name}`, `${start}${' '.repeat(width)}${first}`, ...further];
  return [`${start}${name.padEnd(width)}${first}`, ...further];
}

function listNouns(): string[] {
  return [...new Set(commands.map(({ path: [noun = ''] }) => noun))];
}

function joinLines(lines: readonly string[]): string {
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`;
}
