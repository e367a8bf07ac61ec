// The published suite from the build, under node:test, on the SQLite that this Node prefers.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { describeSessionStore } from '../../dist/public/testing/index.js';
import { openSqliteStore } from '../../dist/stores/index.js';

const folder = mkdtempSync(join(tmpdir(), 'ambit-node-'));
after(() => rmSync(folder, { recursive: true, force: true }));

describeSessionStore(
  'sqlite',
  async (options) => {
    let now = (Math.floor(Date.now() / 86_400_000) + 1.5) * 86_400_000;
    const file = join(folder, randomBytes(6).toString('hex'));
    const another = () => openSqliteStore({ ...options, file, now: () => now });
    const advance = (ms) => {
      now += ms;
    };
    return { store: await another(), another, advance };
  },
  // Some rules wait to hear from another process: they wait at the same time.
  { describe: (name, define) => describe(name, { concurrency: true }, define), test },
);
