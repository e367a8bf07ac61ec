import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { globalFlags } from '../../src/cli/command.ts';
import { commands, loadCommand, nounSummaries, overviewGroups, overviewSummaries } from '../../src/cli/commands.ts';
import { ambitInProcess } from './in-process.ts';

const loaded = await Promise.all(commands.map(loadCommand));
const nouns = [...new Set(commands.map(({ path: [noun = ''] }) => noun))];

/** Commands that print no data: two serve on stdout, one prints a script. */
const withoutData = ['stdio', 'run', 'completion'];

describe('the table of commands', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/reference/commands.md'), 'utf8');
  test.each(loaded.map((command) => [command.path.join(' '), command] as const))('%s', (name, command) => {
    const { path, help, flags } = command;
    expect(help).toMatch(/^[A-Z].{5,59}[^.]$/);
    for (const flag of Object.values(flags)) expect(flag.help).toMatch(/^[A-Z].*[^.]$/);
    // A noun with subcommands needs a line in nounSummaries, src/cli/commands.ts.
    if (path.length > 1) expect(nounSummaries).toHaveProperty(path[0] as string);
    if (!withoutData.includes(name)) expect(flags).toHaveProperty('json');
    const isDocumented = new RegExp(`\`ambit ${name}[ \`]`).test(page);
    expect({ isDocumented, page: 'docs/reference/commands.md' }).toMatchObject({ isDocumented: true });
  });
});

test('the overview fits a small terminal and names every command', async () => {
  const [asked, alone, flag] = await Promise.all([['help'], [], ['--help']].map((words) => printHelp(words)));
  const lines = asked?.split('\n').slice(0, -1) ?? [];
  expect(lines.length).toBeLessThanOrEqual(24);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect([alone, flag]).toEqual([asked, asked]);
  for (const noun of nouns) expect(asked).toMatch(new RegExp(`(?:^| )${noun}(?:,|  |$)`, 'm'));
  for (const noun of overviewGroups.flatMap((group) => group.nouns).filter((each) => nouns.includes(each))) {
    expect(asked).toMatch(new RegExp(`^  ${noun} +[A-Z]`, 'm'));
  }
});

test('the overview loads no command, and describes each one as the command itself does', async () => {
  const loads = commands.map((entry) => vi.spyOn(entry, 'load'));
  await printHelp([]);
  expect(loads.filter((load) => load.mock.calls.length > 0)).toEqual([]);
  for (const [noun, summary] of Object.entries(overviewSummaries)) {
    expect({ noun, help: loaded.find(({ path }) => path.join(' ') === noun)?.help }).toEqual({ noun, help: summary });
  }
  vi.restoreAllMocks();
});

test('a noun alone, with --help and behind help shows its subcommands on one screen', async () => {
  for (const noun of nouns.filter((each) => each in nounSummaries)) {
    const [alone, flag, short, asked] = await Promise.all(
      [[noun], [noun, '--help'], [noun, '-h'], ['help', noun]].map((words) => printHelp(words)),
    );
    expect([flag, short, asked]).toEqual([alone, alone, alone]);
    expect(alone?.split('\n').length).toBeLessThanOrEqual(24);
    for (const { path, help } of loaded.filter((command) => command.path[0] === noun)) {
      expect(alone).toMatch(new RegExp(`^  ${path[1]} .*${help.replace(/[()?]/g, '.').slice(0, 20)}`, 'm'));
    }
  }
});

test('every command and every flag is in "ambit help all" and in the help of the command', async () => {
  const all = await printHelp(['help', 'all']);
  for (const { path, help, flags, operands, operandChoices = [] } of loaded) {
    expect(all).toContain(`\n  ${path.join(' ')} `);
    const own = await printHelp(['help', ...path]);
    expect(own).toBe(await printHelp([...path, '--help']));
    expect(own.startsWith(`${help}\n\nUsage: ambit ${path.join(' ')}`)).toBe(true);
    for (const operand of operands?.split(/ (?=\[?--)/) ?? []) expect(own.split('\n')[2]).toContain(operand);
    for (const choice of operandChoices) expect(own).toMatch(new RegExp(`[ ,]${choice}(?:,|$)`, 'm'));
    for (const name of Object.keys({ ...flags, ...globalFlags })) expect(own).toContain(`--${name}`);
    expect(own.split('\n').filter((line) => line.length > 80)).toEqual([]);
  }
});

async function printHelp(words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await ambitInProcess(words);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}
