import { AmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import type { Objects, Ref } from './objects.ts';

/**
 * What an operation is about to write, and what nobody refers to any more once it is done. It is noted before, so that
 * whatever becomes of the operation, all of it that is garbage is found later.
 */
export interface Intent {
  readonly fresh: readonly Ref[];
  readonly stale: readonly Ref[];
  /** Folders that go with all that is in them. */
  readonly trees: readonly Ref[];
}

export interface NotedIntent extends Intent {
  readonly startedMs: number;
  forget(): Promise<void>;
}

export interface Intents {
  note(operation: Operation, intent: Intent): Promise<void>;
  forget(operation: Operation): Promise<void>;
  any(): Promise<boolean>;
  all(): Promise<readonly NotedIntent[]>;
}

export interface Operation {
  readonly name: string;
  readonly startedMs: number;
}

/** One collection would be full too soon. */
const shards = 16;

export function intentsOf(documents: Documents, { collection }: Objects): Intents {
  const keyOf = ({ name, startedMs }: Operation) => `${String(startedMs).padStart(15, '0')}-${name}`;
  const shardAt = (index: number) => `${collection}-s${index.toString(16)}`;
  const shardOf = ({ name }: Operation) => shardAt(Number.parseInt(name.slice(0, 4), 16) % shards);

  async function listShard(shard: string): Promise<NotedIntent[]> {
    const found: NotedIntent[] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page = await documents.list(shard, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const { key, text } of page.documents) {
        const forget = async () => void (await documents.delete(shard, key));
        found.push({ ...(JSON.parse(text) as Intent), startedMs: Number(key.slice(0, 15)), forget });
      }
      after = page.next;
    }
    return found;
  }

  return {
    async note(operation, intent) {
      const { outcome } = await documents.put(shardOf(operation), keyOf(operation), JSON.stringify(intent));
      if (outcome === 'written') return;
      throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'More was written here than can be tidied up in time.' });
    },
    forget: async (operation) => void (await documents.delete(shardOf(operation), keyOf(operation))),

    async any() {
      for (let index = 0; index < shards; index++) {
        if ((await documents.list(shardAt(index), { limit: 1 })).documents.length > 0) return true;
      }
      return false;
    },

    async all() {
      const found: NotedIntent[] = [];
      for (let index = 0; index < shards; index++) found.push(...(await listShard(shardAt(index))));
      return found;
    },
  };
}
