import { openUpstreamAuth, type UpstreamAuth } from '../../upstreams/auth/upstream-auth.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import type { FindFetchedPackage } from '../../upstreams/pins/server-pins.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Storage } from './open-storage.ts';

/** The approvals of servers, and the credentials that servers get on behalf of users. */
export interface AuthParts {
  readonly approvals: Approvals;
  readonly auth: UpstreamAuth;
}

interface AuthOptions {
  readonly storage: Storage;
  /** Needed only to check servers that are started from a package. */
  readonly fetchedPackage?: FindFetchedPackage;
  /** False if a server may differ from the configuration. Then it gets no credentials. */
  readonly credentials: boolean;
}

export async function openAuth(options: AuthOptions, closing: ClosingStack): Promise<AuthParts> {
  const { settings, paths, journal, store } = options.storage;
  const { dataDir } = paths;
  const { fetchedPackage, credentials: isEnabled } = options;
  const approvals = createApprovals({ dataDir, ...(fetchedPackage === undefined ? {} : { fetchedPackage }) });
  closing.push(approvals.close);
  const auth = await openUpstreamAuth({ isEnabled, store, settings, dataDir, journal, approvals });
  closing.push(auth.close);
  return { approvals, auth };
}
