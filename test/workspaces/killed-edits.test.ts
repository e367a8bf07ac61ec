import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { isTemporaryName } from '../../src/saferoot/temporary-name.ts';
import { openLocal } from '../../src/workspaces/local/open-local.ts';
import { pathRules } from '../../src/workspaces/path-rules.ts';
import { counts } from '../proof.ts';
import { ensureBuilt } from '../runners/ensure-built.ts';

const script = join(import.meta.dirname, 'edits-until-killed.js');
let folder: string;

beforeAll(() => ensureBuilt());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-killed-edits-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function killedAfter(ms: number, round: number): Promise<void> {
  const child = spawn(process.execPath, [script, folder, String(round)], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  await delay(ms);
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

const filesIn = (place: string): string[] =>
  readdirSync(place, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(place, name)).isFile());

function isWhole(name: string): boolean {
  const [digest, body] = readFileSync(join(folder, name), 'utf8').split('\n');
  return digest === createHash('sha256').update(String(body)).digest('hex');
}

test(
  'W6: whoever is killed while it edits leaves every file whole, and nothing beside them',
  async () => {
    let leftOvers = 0;
    let seen = 0;
    const kills = counts(100, 2000);
    for (let round = 0; round < kills; round++) {
      await killedAfter(Math.random() * 25, round);
      const left = filesIn(folder);
      const whole = left.filter((name) => !isTemporaryName(name.split('/').at(-1) as string));
      expect(whole.filter((name) => !isWhole(name))).toEqual([]);
      leftOvers += left.length - whole.length;
      seen += whole.length;

      const files = openLocal(folder, { rules: pathRules({ hide: [], keep: [], open: [] }) });
      await files.swept;
      await files.close();
      expect(filesIn(folder).sort()).toEqual(whole.sort());
    }
    // Else nobody was killed in the middle of anything.
    expect(seen).toBeGreaterThan(kills);
    expect(leftOvers).toBeGreaterThan(0);
  },
  counts(240_000, 1_800_000),
);
