import { accessSync, constants, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isAmbitError } from '../../errors.ts';
import { obstacleTo } from '../../lib/fs/private-files.ts';
import { openStore, type StoreSettings } from '../../stores/open-store.ts';
import { groundFor } from '../../workspaces/saferoot/platform/select-platform-fs.ts';
import { examineRunners } from './examine-runners.ts';
import type { Examination, Finding } from './finding.ts';

export interface Examined {
  readonly store: StoreSettings;
  readonly dataDir: string;
}

/** What this machine can do. Nothing is left behind, and no data of a gateway is touched. */
export async function examine({ store, dataDir }: Examined): Promise<Examination> {
  const runners = await examineRunners();
  const others = [platform(), files(), await records(store), folder(dataDir)];
  const hasSandbox = runners.some(({ kind, name, state }) => kind === 'runner' && name !== 'plain' && state === 'ok');
  const ok = hasSandbox && others.every(({ state }) => state !== 'missing');
  return { ok, findings: [...others.slice(0, 1), ...runners, ...others.slice(1)] };
}

function platform(): Finding {
  const detail = `${process.platform} ${process.arch}, Node ${process.versions.node}`;
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isOld = major < 20 || (major === 20 && minor < 19);
  return {
    kind: 'platform',
    name: 'platform',
    state: isOld ? 'missing' : 'ok',
    detail,
    remedy: isOld ? 'Install Node 20.19 or newer' : null,
  };
}

function files(): Finding {
  const about = { kind: 'files', name: 'file access' } as const;
  try {
    groundFor(process.platform, false);
    return { ...about, state: 'ok', detail: 'cannot leave a folder', remedy: null };
  } catch (error) {
    return { ...about, state: 'missing', detail: (error as Error).message, remedy: 'Mount /proc' };
  }
}

/** A file is tried elsewhere: the one of a gateway is not ours to open. */
async function records(settings: StoreSettings): Promise<Finding> {
  const about = { kind: 'store', name: settings.kind } as const;
  const place = mkdtempSync(join(tmpdir(), 'ambit-doctor-'));
  try {
    const store = await openStore(settings, place);
    try {
      await store.ping();
    } finally {
      await store.close();
    }
    const detail = settings.kind === 'memory' ? 'records end with the gateway' : 'can be asked';
    return { ...about, state: settings.kind === 'memory' ? 'weak' : 'ok', detail, remedy: null };
  } catch (error) {
    const remedy = isAmbitError(error) ? error.hint : null;
    return { ...about, state: 'missing', detail: (error as Error).message, remedy };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

function folder(dataDir: string): Finding {
  let place = dataDir;
  while (!existsSync(place)) place = dirname(place);
  const about = { kind: 'store', name: 'data directory' } as const;
  const obstacle = obstacleTo(dataDir);
  if (obstacle !== undefined) {
    return { ...about, state: 'missing', detail: obstacle, remedy: 'Choose another with --data-dir DIR' };
  }
  try {
    accessSync(place, constants.W_OK | constants.X_OK);
    return { ...about, state: 'ok', detail: place === dataDir ? dataDir : `${dataDir}, not there yet`, remedy: null };
  } catch {
    const detail = `${place} cannot be written`;
    return { ...about, state: 'missing', detail, remedy: 'Choose another with --data-dir DIR' };
  }
}
