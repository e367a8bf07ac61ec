import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ambitInProcess, splitWords } from './in-process.ts';

/**
 * What a person sees on a terminal of 80 columns and 24 lines. To add a screen, add a line to `screens`. After a change,
 * write the files again and look at each: `npx vitest run test/cli/screens.test.ts --update`.
 */
const screens: Readonly<Record<string, string>> = {
  overview: 'ambit',
  'help-session': 'ambit help session',
  'help-session-create': 'ambit help session create',
  'session-list': 'ambit session list',
  'session-tree': 'ambit session tree',
  'session-show': 'ambit session show fix-invoices',
  'session-diff': 'ambit session diff fix-invoices',
  explain: 'ambit explain --session fix-invoices --tool notes__delete_note',
  'error-flag': 'ambit session create --trust sandbox',
  'error-workspace': 'ambit session create --workspace shpo',
};

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-screens-')));
const places = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
const configuration = `version: 1
servers:
  notes: { command: node, args: [notes.js], tools: { deny: ["delete_*"] } }
workspaces:
  shop: { path: shop, isolation: copy }
  docs: { path: docs, trust: sandboxed }
`;

beforeAll(async () => {
  for (const name of ['shop', 'docs']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'shop/total.js'), 'export function total(lines) {\n  return lines.length;\n}\n');
  writeFileSync(join(folder, 'notes.js'), '');
  writeFileSync(join(folder, 'ambit.yaml'), configuration);
  await ambit('ambit session create --name fix-invoices --workspace shop --user ada --trust direct');
  await ambit('ambit session create --name write-guide --workspace docs --agent claude --ttl 600');
  const child = 'ambit session create --parent fix-invoices --agent claude';
  await ambit(`${child} --name check-totals --task 'Compare the totals of all invoices with the ledger'`);
  await ambit('ambit session create --parent check-totals --name read-ledger --trust sandboxed');
  await ambit(`${child} --name write-tests --task 'Test total.js'`);
  const { stdout } = await ambit('ambit session diff fix-invoices --json');
  const { path } = JSON.parse(stdout) as { path: string };
  const sum = 'export function total(lines) {\n  return lines.reduce((sum, { price }) => sum + price, 0);\n}\n';
  writeFileSync(join(path, 'total.js'), sum);
  writeFileSync(join(path, 'test.js'), "import { total } from './total.js';\n");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function ambit(line: string) {
  const words = splitWords(line).slice(1);
  const needsPlaces = words.length > 0 && words[0] !== 'help';
  return ambitInProcess([...words, ...(needsPlaces ? places : [])]);
}

/** Replaces what differs from run to run by something of the same width. */
function maskScreen(text: string): string {
  return (
    text
      .replaceAll(folder, '/home/ada/.config/ambit')
      .replace(/\b(?=\d*[a-f])[0-9a-f]{32}\b/g, '1a2b3c4d5e6f708192a3b4c5d6e7f809')
      .replace(/^[0-9a-f]{8}(?= )/gm, '1a2b3c4d')
      .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, '2027-01-31 12:00:00')
      .replace(/\b\d+s ago/g, '0s ago')
      // A column of a table keeps its width, however slow the machine is.
      .replace(/\b\d+s {2,}/g, (idle) => '0s'.padEnd(idle.length))
  );
}

test.each(Object.entries(screens))('%s', async (name, line) => {
  const { stdout, stderr } = await ambit(line);
  const screen = maskScreen(`$ ${line}\n${stderr}${stdout}`);
  await expect(screen).toMatchFileSnapshot(join(import.meta.dirname, 'screens', `${name}.txt`));
  const lines = screen.split('\n').slice(0, -1);
  expect(lines.length).toBeLessThanOrEqual(25);
  // Messages on stderr are wrapped by the terminal, so that a path in them can be copied.
  expect(stdout.split('\n').filter((each) => each.length > 80)).toEqual([]);
});
