import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import { AmbitError } from '../errors.ts';
import { openJournal } from '../journal/journal.ts';
import { openStore } from '../stores/open-store.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import { credentialsIn, type GivenCredentials, giveCredentials } from './given-credentials.ts';

/** The same credentials that a gateway of this configuration has, for when none is running. */
export async function openStoredCredentials(
  config: Config,
  servers: ReadonlyMap<string, ServerDefinition>,
  dataDir: string,
): Promise<{ readonly credentials: GivenCredentials; close(): Promise<void> }> {
  if (config.store.kind === 'memory') {
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: 'The store is in the memory of the gateway, and no gateway is running.',
      hint: 'Start one with "ambit serve", or keep records on disk with "store: { kind: sqlite }".',
    });
  }
  const store = await openStore(config.store, dataDir);
  const journal = openJournal(join(dataDir, 'journal', 'journal.jsonl'));
  const kept = await credentialsIn(store, config, dataDir);
  return {
    credentials: giveCredentials({
      credentials: kept,
      servers: () => servers,
      prefixes: () => config.context.envPrefixes,
      journal,
    }),
    async close() {
      kept.close();
      await store.close();
      await journal.close();
    },
  };
}
