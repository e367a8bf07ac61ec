import type { Approvals } from '../approvals/approvals.ts';
import type { Journal } from '../journal/journal.ts';
import type { SessionStore } from '../stores/store.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Links } from '../upstreams/links.ts';
import { createCarrying } from './carry-credentials.ts';
import { type CarryingLogins, carryLogins } from './carry-logins.ts';
import { credentialsIn, endWhatCarries, type GivenCredentials, giveCredentials } from './given-credentials.ts';
import { type GivenLogins, giveLogins, loginsIn } from './given-logins.ts';
import type { Settings } from './settings.ts';

/** All that servers are given on behalf of users: what was set for them, and what they logged in for. */
export interface GivenToServers {
  readonly carrying: CarryingLogins;
  readonly credentials: GivenCredentials;
  readonly logins: GivenLogins;
  /** From now on, what carries something that is another or gone ends at once; `announce` hears whose lists may be others. */
  follow(links: Links, announce: (server: string, concerns: Concerns) => void): void;
  /** Whoever is added under this name later is somebody else. */
  removeAllOf(userId: string): Promise<void>;
  close(): void;
}

/** Whether something of this user for this server is meant. */
type Concerns = (userId: string, server: string) => boolean;

export interface GivenOptions {
  /** False where nobody's may be given to any server. */
  readonly any: boolean;
  readonly store: SessionStore;
  readonly settings: Settings;
  readonly dataDir: string;
  readonly journal: Journal;
  readonly approvals: Approvals;
}

export async function openGiven(options: GivenOptions): Promise<GivenToServers> {
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
    carrying: carryLogins({
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
    follow(links, announce) {
      for (const kept of [credentials, logins]) {
        if (kept === undefined) continue;
        endWhatCarries(kept, servers, links);
        kept.onChange(async (concerns, server) => announce(server, concerns));
      }
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
