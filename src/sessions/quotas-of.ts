import type { Config } from '../config/schema/schema.ts';
import type { Quotas } from './grant-size.ts';

/** The quotas of a configuration as a store takes them: without those that bound nothing. */
export function quotasOf({ quotas: { session, user, workspace } }: Config): Quotas {
  return { session, ...(isBounded(user) ? { user } : {}), ...(isBounded(workspace) ? { workspace } : {}) } as Quotas;
}

function isBounded(limits: object): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}
