import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { openSigningKeys, type SigningKeys } from '../../context/for-tools/signing-keys.ts';
import { claimDataDir } from '../../lib/fs/private-files.ts';
import { type Journal, openJournal } from '../../observability/journal/journal.ts';
import { journalPath } from '../../observability/journal/journal-files.ts';
import type { Log } from '../../observability/log/log.ts';
import { createSafeLog } from '../../observability/log/safe-log.ts';
import { createReservedKeys, type ReservedKeys } from '../../protocol/reserved-meta.ts';
import { feedFlushed } from '../../sessions/events/lifecycle.ts';
import type { SessionStore } from '../../stores/store.ts';
import { openStore } from '../../stores/store-kinds.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import type { GatewayOptions, Operator } from '../gateway.ts';
import type { ClosingStack } from './closing-stack.ts';

/** The configuration as it is now; a reload replaces it as a whole. */
interface LiveConfig {
  config(): Config;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The `_meta` keys that pass neither way. */
  keys(): ReservedKeys;
  /** Returns the servers that were added, removed or changed. */
  replace(next: Config): string[];
}

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
  const journal = openJournal(journalPath(dataDir), log, { limits: () => settings.config().journal });
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

function createLiveConfig(first: Config, configDir: string): LiveConfig {
  let config = first;
  let servers = defineServers(first, configDir);
  let keys = createReservedKeys(first.context.announceKeys);
  return {
    config: () => config,
    servers: () => servers,
    keys: () => keys,
    replace(next) {
      const before = servers;
      config = next;
      keys = createReservedKeys(next.context.announceKeys);
      const defined = defineServers(next, configDir);
      // An unchanged server stays the same object.
      servers = new Map(
        [...defined].map(([name, server]) => {
          const known = before.get(name);
          return [name, known !== undefined && isDeepStrictEqual(known, server) ? known : server];
        }),
      );
      const names = new Set([...before.keys(), ...servers.keys()]);
      return [...names].filter((name) => before.get(name) !== servers.get(name));
    },
  };
}
