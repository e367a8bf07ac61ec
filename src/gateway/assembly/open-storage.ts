import { dirname, join } from 'node:path';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { openSigningKeys, type SigningKeys } from '../../context/for-tools/signing-keys.ts';
import { claimDataDir } from '../../lib/fs/private-files.ts';
import { type Journal, openJournal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import { createSafeLog } from '../../observability/log/safe-log.ts';
import { feedFlushed } from '../../sessions/events/lifecycle.ts';
import type { SessionStore } from '../../stores/store.ts';
import { openStore } from '../../stores/store-kinds.ts';
import { createLiveConfig, type LiveConfig } from '../../upstreams/access/live-config.ts';
import type { GatewayOptions, Operator } from '../gateway.ts';
import type { ClosingStack } from './closing-stack.ts';

/** The configuration, and the parts in the data directory that all others use. */
export interface Storage {
  readonly paths: Operator['paths'];
  readonly settings: LiveConfig;
  /** The configuration at the start. Limits, identity and addresses keep it after a reload. */
  readonly config: Config;
  /** A log that shortens texts and removes secrets. */
  readonly log: Log;
  readonly journal: Journal;
  readonly keys: SigningKeys;
  readonly store: SessionStore;
  /** Records that the gateway is open. Its end is recorded only after that. */
  recordOpened(): void;
  /** Resolves when earlier changes have most likely reached the feed. */
  feedFlushed(): Promise<void>;
}

export async function openStorage(options: GatewayOptions, closing: ClosingStack): Promise<Storage> {
  const { config, configFile, dataDir, storeDir = dataDir } = options;
  const settings = createLiveConfig(config, dirname(configFile));
  for (const dir of new Set([dataDir, storeDir])) {
    assertOutOfReach({ configFile, dataDir: dir, config });
    claimDataDir(dir);
  }
  const log = createSafeLog(options.log);
  const journal = openJournal(join(dataDir, 'journal', 'journal.jsonl'), log);
  const recordEvent = (event: 'opened' | 'closed') => journal.record({ kind: 'gateway', event, pid: process.pid });
  let isOpened = false;
  closing.push(() => {
    if (isOpened) recordEvent('closed');
    return journal.close();
  });
  const keys = await openSigningKeys(join(dataDir, 'keys'));
  closing.push(keys.close);
  const store = options.store ?? (await openStore(config.store, storeDir));
  closing.push(() => store.close());
  let flushed: Promise<void> | undefined;
  return {
    paths: { configFile, dataDir },
    settings,
    config,
    log,
    journal,
    keys,
    store,
    recordOpened() {
      isOpened = true;
      recordEvent('opened');
    },
    feedFlushed() {
      flushed ??= feedFlushed(store);
      return flushed;
    },
  };
}
