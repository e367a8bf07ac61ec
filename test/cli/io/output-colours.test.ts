import { stripVTControlCharacters } from 'node:util';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { paintState, paintText, renderPairs, renderTable } from '../../../src/cli/io/output.ts';
import { ambitInProcess } from '../in-process.ts';

const { stdout, stderr } = process;
const before = [stdout.isTTY, stderr.isTTY];

/** Makes the outputs of this process look like a terminal, or not. */
function setTerminal(out: boolean | undefined, err: boolean | undefined): void {
  Object.assign(stdout, { isTTY: out });
  Object.assign(stderr, { isTTY: err });
}
beforeEach(() => {
  vi.stubEnv('NO_COLOR', '');
  vi.stubEnv('TERM', 'xterm');
  setTerminal(true, true);
});
afterEach(() => {
  vi.unstubAllEnvs();
  setTerminal(before[0], before[1]);
});

test('a terminal gets colours; NO_COLOR, a dumb terminal and a pipe get none', () => {
  expect(paintText('red', 'no')).toBe('\u001b[31mno\u001b[39m');
  expect(paintText('red', 'no', { isTTY: false })).toBe('no');
  expect(paintState('missing  ')).toBe('\u001b[31mmissing  \u001b[39m');
  expect(paintState('something')).toBe('something');
  vi.stubEnv('NO_COLOR', '1');
  expect(paintText('red', 'no')).toBe('no');
  vi.stubEnv('NO_COLOR', '');
  vi.stubEnv('TERM', 'dumb');
  expect(paintText('red', 'no')).toBe('no');
});

test('colours take no room in columns, and text from outside adds none', () => {
  const hostile = '\u001b[32mok\u001b[0m';
  const render = () =>
    renderTable(
      ['NAME', 'STATE', 'NOTE'],
      [
        ['notes', 'ok', 'first'],
        [hostile, 'missing', hostile],
      ],
      { states: ['STATE'] },
    );
  const coloured = render();
  const pairs = renderPairs([['name', hostile]]);
  setTerminal(undefined, undefined);
  expect(stripVTControlCharacters(coloured)).toBe(render());
  expect(stripVTControlCharacters(pairs)).toBe(renderPairs([['name', hostile]]));
  expect(coloured).toContain('\u001b[31mmissing\u001b[39m');
  expect(coloured.split('\u001b[32m')).toHaveLength(2);
});

test('headings and errors are coloured, each for its own stream', async () => {
  const help = await ambitInProcess(['help', 'session']);
  expect(help.stdout).toContain('\u001b[1mCommands\u001b[22m\n');
  const wrong = await ambitInProcess(['\u001b[2Jx']);
  expect(wrong.stderr).toMatch(/^\u001b\[31mambit:\u001b\[39m unknown command "\\u001b\[2Jx"/);
  setTerminal(true, false);
  expect((await ambitInProcess(['x'])).stderr).toMatch(/^ambit: unknown command/);
});
