import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { expect } from 'vitest';
import { callTool, connectClient } from './connect-client.ts';
import { findLeftOut } from './left-out.ts';
import { buildOutputPattern, matchesOutput, type PageNames, tidyOutput, useNames } from './match-output.ts';
import type { PageServices } from './page-services.ts';
import { openPageShell } from './page-shell.ts';
import { type PageBlock, readPage } from './read-page.ts';

export interface PageRun {
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  /** What the shell is told first. */
  readonly functions: string;
  readonly services: PageServices;
}

/** Follows a page from its first block to its last, as a newcomer does, and compares what is printed. */
export async function runPage(path: string, run: PageRun): Promise<void> {
  const blocks = readPage(path);
  const { names } = run.services;
  names.set('/home/ada', run.home);
  const shell = openPageShell(run.home, { ...run.env, ...run.services.env }, run.functions);
  let lastToken = '';
  try {
    for (const [i, block] of blocks.entries()) {
      const place = `${path}:${block.line}`;
      if (findLeftOut(path, block) !== undefined) continue;
      const next = blocks[i + 1];
      const shown = next?.kind === 'output' ? next : undefined;
      const text = useNames(block.text, names);
      if (block.kind === 'run') {
        const printed = await shell.run(text);
        if (text.includes('serve --background')) learnAddresses(shown?.text ?? '', printed, names);
        lastToken = printed.match(/amb[sk]_\w+/g)?.at(-1) ?? lastToken;
        if (!isPackageInstall(block)) compareOutput(place, printed, shown, names);
      } else if (block.kind === 'start') {
        if (shown === undefined) throw new Error(`${place}: show what it prints when it is ready`);
        const pattern = buildOutputPattern(anyPort(shown.text), names);
        const printed = await shell.start(text, (so) => pattern.test(tidyOutput(so)));
        // A secret is for terminals and private files: this could be a log.
        expect(printed, place).not.toMatch(/amb[sk]_\w/);
        learnAddresses(shown.text, printed, names);
        await run.services.readPrinted(printed);
      } else if (block.kind === 'file') {
        const file = resolve(shell.folder(), (block.file as string).replace(/^~/, run.home));
        mkdirSync(dirname(file), { recursive: true });
        // A running gateway reads it again. A person would be slower than that.
        const isTaken = shell.hasStarted('ambit serve') ? shell.waitFor('configuration reloaded') : undefined;
        writeFileSync(file, text);
        if (file.endsWith('/ambit.yaml')) await isTaken;
      } else if (block.kind === 'client') {
        await connectClient(text.replaceAll(/amb[sk]_…/g, lastToken), { cwd: shell.folder(), env: run.env });
      } else if (block.kind === 'call') {
        const answer = await callTool(text, `http://${useNames('127.0.0.1:7420', names)}/mcp`, lastToken);
        expect(tidyOutput(answer), place).toBe(next?.text);
      } else if (block.kind === 'other') throw new Error(`${place}: nothing says what to do with this block`);
    }
  } finally {
    await shell.close();
  }
}

/** npm reports in its own words, which are others with each version. */
const isPackageInstall = ({ text }: PageBlock) =>
  text.split('\n').every((line) => /^(?:npm (?:ci|i|init|link|pack)\b|npx tsc |git clone|cd |mkdir |cp |$)/.test(line));

function compareOutput(place: string, printed: string, shown: PageBlock | undefined, names: PageNames): void {
  const json = shown?.language === 'json';
  const told = tidyOutput(printed);
  const tidy = json ? `${JSON.stringify(JSON.parse(told))}\n` : told;
  const expected = json ? `${JSON.stringify(JSON.parse(shown.text))}\n` : (shown?.text ?? '');
  if (!matchesOutput(tidy, expected, names)) expect(tidy, place).toBe(expected);
}

const anyPort = (text: string) => text.replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:…');

/** The first address on the page and the first that was printed are the same one, and so on. */
function learnAddresses(shown: string, printed: string, names: Map<string, string>): void {
  const list = (text: string) => text.match(/127\.0\.0\.1:\d+/g) ?? [];
  for (const [i, address] of list(shown).entries()) names.set(address, list(printed)[i] ?? address);
}
