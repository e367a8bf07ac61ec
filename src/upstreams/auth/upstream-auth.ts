import type { Journal } from '../../observability/journal/journal.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Settings } from '../access/settings.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Approvals } from '../pins/approvals.ts';
import { createCarrying } from './carry-credentials.ts';
import { type CarryingLogins, carryLogins } from './carry-logins.ts';
import { credentialsIn, type GivenCredentials, giveCredentials } from './given-credentials.ts';
import { type GivenLogins, giveLogins, loginsIn } from './given-logins.ts';

/** All that servers are given on behalf of users: what was set for them, and what they logged in for. */
export interface UpstreamAuth {
  readonly authFor: CarryingLogins;
  readonly credentials: GivenCredentials;
  readonly logins: GivenLogins;
  /** Hears of what is another now, or gone; whoever changed it waits for the listener. */
  onChange(listener: (server: string, concerns: Concerns) => Promise<void>): void;
  /** Removes everything of a user: a user who is added under this name later is somebody else. */
  removeAllOf(userId: string): Promise<void>;
  close(): void;
}

/** True when something of this user for this server is meant. */
export type Concerns = (userId: string, server: string) => boolean;

export interface UpstreamAuthOptions {
  /** False where nobody's may be given to any server. */
  readonly any: boolean;
  readonly store: SessionStore;
  readonly settings: Settings;
  readonly dataDir: string;
  readonly journal: Journal;
  readonly approvals: Approvals;
}

export async function openUpstreamAuth(options: UpstreamAuthOptions): Promise<UpstreamAuth> {
  const { any, store, settings, dataDir, journal, approvals } = options;
  const { servers } = settings;
  const first = settings.config();
  const credentials = any ? await credentialsIn(store, first, dataDir) : undefined;
  const logins = any ? await loginsIn(store, first, dataDir, { journal, servers }) : undefined;
  const prefixes = () => settings.config().context.envPrefixes;
  const isApproved = (server: ServerDefinition) => approvals.check(server).state === 'approved';
  const publicUrl = () => settings.config().listen.publicUrl?.replace(/\/$/, '');
  const given = giveCredentials({ credentials, servers, prefixes, journal });
  const loggedIn = giveLogins({ logins, servers, publicUrl, isApproved });
  return {
    authFor: carryLogins({
      carrying: createCarrying({ credentials, prefixes, isApproved }),
      logins,
      isApproved,
      async linkFor(userId, server) {
        const base = publicUrl();
        return base === undefined ? undefined : `${base}/login/${await logins?.tickets.make(userId, server)}`;
      },
    }),
    credentials: given,
    logins: loggedIn,
    onChange(listener) {
      for (const kept of [credentials, logins]) kept?.onChange((concerns, server) => listener(server, concerns));
    },
    async removeAllOf(userId) {
      if (!any) return;
      const isOf = (each: { readonly userId: string }) => each.userId === userId;
      for (const each of given.list().filter(isOf)) await given.remove(each);
      for (const each of loggedIn.list().filter(isOf)) await loggedIn.remove(each);
    },
    close() {
      credentials?.close();
      logins?.close();
    },
  };
}
