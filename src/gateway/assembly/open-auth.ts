import { openUpstreamAuth, type UpstreamAuth } from '../../upstreams/auth/upstream-auth.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import type { FetchedPackage } from '../../upstreams/pins/pinned.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Storage } from './open-storage.ts';

/** The approvals of servers, and what servers are given on behalf of users. */
export interface AuthParts {
  readonly approvals: Approvals;
  readonly auth: UpstreamAuth;
}

interface AuthOptions {
  readonly storage: Storage;
  /** Left out where no server that is started from a package is looked at. */
  readonly fetchedPackage?: FetchedPackage;
  /** False where a server may not be what the configuration says: then it is given nobody's credential. */
  readonly credentials: boolean;
}

export async function openAuth(options: AuthOptions, closing: ClosingStack): Promise<AuthParts> {
  const { settings, paths, journal, store } = options.storage;
  const { dataDir } = paths;
  const { fetchedPackage, credentials: any } = options;
  const approvals = createApprovals({ dataDir, ...(fetchedPackage === undefined ? {} : { fetchedPackage }) });
  closing.push(approvals.close);
  const auth = await openUpstreamAuth({ any, store, settings, dataDir, journal, approvals });
  closing.push(auth.close);
  return { approvals, auth };
}
