import type { Caller } from '../../upstreams/caller.ts';
import type { Edit } from '../../wire/edit.ts';
import type { Arrived, AuthorizedForAll } from '../exchange.ts';

/** The address that stands for all servers; no server can have this name. */
export const allServers = '*';

/** An exchange with all servers at once. */
export type ForAll = AuthorizedForAll<Arrived> & {
  readonly caller: Caller | undefined;
  readonly edits: readonly Edit[];
};
