import type { Prepared } from '../exchange.ts';

/** The address that stands for all servers; no server can have this name. */
export const allServers = '*';

/** An exchange with all servers at once. */
export type ForAll = Prepared;
