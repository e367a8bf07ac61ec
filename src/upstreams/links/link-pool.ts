import { AmbitError } from '../../errors.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';
import type { Link } from './link.ts';
import { isWide, processKey, type Scope } from './process-key.ts';
import type { HandshakeOpening } from './stdio/opening.ts';

/** Who uses a link. */
export interface Tenancy {
  /** Several sessions may use it. */
  readonly wide: boolean;
  readonly key: string;
  /** Of all its users, now and later. */
  readonly trustLevel: TrustLevel;
  /** The workspace of all its users; undefined where they may stand in several. */
  readonly workspaceId: string | undefined;
  /** By id, each as it was when it last called. */
  readonly users: Map<string, Session>;
  /** The one whose call came last: a process starts on behalf of whoever needs it. */
  latest: Session;
}

export interface Kept {
  readonly name: string;
  readonly tenancy: Tenancy;
  readonly link: Link;
  readonly opening: HandshakeOpening | undefined;
  shaking: Promise<unknown> | undefined;
}

/** The links there are, by who shares them, and which sessions use each. */
export interface KeptLinks {
  /** A link that still works; the session counts among its users from now on. */
  find(session: Session, scope: Scope, name: string): Kept | undefined;
  add<L extends Link>(
    session: Session,
    scope: Scope,
    name: string,
    make: (tenancy: Tenancy) => L,
    opening?: HandshakeOpening,
  ): Kept & { readonly link: L };
  ofSession(sessionId: string): Kept[];
  discard(kept: Kept): void;
  /** Those that fit take no new clients, finish what is under way, and end. */
  retire(fits: (kept: Kept) => boolean): void;
  isRetired(link: Link): boolean;
  /** Those that fit end at once, with what is under way; whoever stood on one is introduced to the next. */
  end(reason: AmbitError, fits: (kept: Kept) => boolean): Promise<void>;
  /** False for a link of several sessions that this one no longer uses. */
  serves(link: Link, sessionId: string): boolean;
  /** All who use a link, or the link it stands on. */
  usersOf(link: Link): Session[];
  /** The session leaves the links that fit; those that nobody else uses are closed. */
  leave(sessionId: string, reason: AmbitError, fits: (link: Link) => boolean): Promise<void>;
  tend(now: number): void;
  close(reason: AmbitError): Promise<void>;
  size(): number;
}

const drainMs = 60_000;

export function createKeptLinks(): KeptLinks {
  const byKey = new Map<string, Map<string, Kept>>();
  const bySession = new Map<string, Set<Kept>>();
  const retired = new Map<Link, { readonly kept: Kept; readonly until: number }>();
  const tenancies = new WeakMap<Link, Tenancy>();
  const keys = new WeakMap<Session, Map<Scope, string>>();

  function keyOf(session: Session, scope: Scope): string {
    let known = keys.get(session);
    if (known === undefined) {
      known = new Map();
      keys.set(session, known);
    }
    let key = known.get(scope);
    if (key === undefined) {
      key = processKey(scope, session);
      known.set(scope, key);
    }
    return key;
  }

  function use(kept: Kept, session: Session): void {
    const { users } = kept.tenancy;
    kept.tenancy.latest = session;
    const known = users.get(session.id);
    if (known === session) return;
    users.set(session.id, session);
    if (known === undefined) enlist(kept, session.id);
  }

  function enlist(kept: Kept, sessionId: string): void {
    const own = bySession.get(sessionId);
    if (own === undefined) bySession.set(sessionId, new Set([kept]));
    else own.add(kept);
  }

  function strike(kept: Kept, sessionId: string): void {
    const own = bySession.get(sessionId);
    own?.delete(kept);
    if (own?.size === 0) bySession.delete(sessionId);
  }

  function drop(kept: Kept): void {
    const siblings = byKey.get(kept.tenancy.key);
    if (siblings?.get(kept.name) === kept) siblings.delete(kept.name);
    if (siblings?.size === 0) byKey.delete(kept.tenancy.key);
    for (const sessionId of kept.tenancy.users.keys()) strike(kept, sessionId);
  }

  function all(): Kept[] {
    return [...byKey.values()].flatMap((siblings) => [...siblings.values()]);
  }

  return {
    find(session, scope, name) {
      const kept = byKey.get(keyOf(session, scope))?.get(name);
      if (kept === undefined || kept.link.isClosed()) return undefined;
      use(kept, session);
      return kept;
    },

    add(session, scope, name, make, opening) {
      const key = keyOf(session, scope);
      const workspaceId = scope === 'shared' ? undefined : session.workspaceId;
      const users = new Map([[session.id, session]]);
      const { trustLevel } = session;
      const tenancy: Tenancy = { wide: isWide(scope), key, trustLevel, workspaceId, users, latest: session };
      const kept = { name, tenancy, link: make(tenancy), opening, shaking: undefined };
      const before = byKey.get(key)?.get(name);
      if (before !== undefined) drop(before);
      tenancies.set(kept.link, tenancy);
      const { base } = kept.link;
      if (base !== undefined && !tenancies.has(base)) tenancies.set(base, tenancy);
      const siblings = byKey.get(key) ?? new Map<string, Kept>();
      byKey.set(key, siblings.set(name, kept));
      enlist(kept, session.id);
      return kept;
    },

    ofSession: (sessionId) => [...(bySession.get(sessionId) ?? [])],

    discard(kept) {
      drop(kept);
      void kept.link.close(new AmbitError('UPSTREAM_FAILED'));
    },

    retire(fits) {
      for (const kept of all().filter(fits)) {
        drop(kept);
        retired.set(kept.link, { kept, until: Date.now() + drainMs });
      }
    },

    isRetired: (link) => retired.has(link) || link.isClosed(),

    async end(reason, fits) {
      const ending = [...all(), ...[...retired.values()].map(({ kept }) => kept)].filter(fits);
      for (const kept of ending) {
        drop(kept);
        retired.delete(kept.link);
      }
      await Promise.all(ending.map(({ link }) => link.close(reason)));
    },

    serves(link, sessionId) {
      const tenancy = tenancies.get(link);
      return tenancy === undefined || tenancy.users.has(sessionId);
    },

    usersOf: (link) => [...(tenancies.get(link)?.users.values() ?? [])],

    async leave(sessionId, reason, fits) {
      const old = [...retired.values()].map(({ kept }) => kept).filter(({ tenancy }) => tenancy.users.has(sessionId));
      const closing: Promise<void>[] = [];
      for (const kept of [...(bySession.get(sessionId) ?? []), ...old]) {
        if (!fits(kept.link)) continue;
        const { users } = kept.tenancy;
        if (users.size > 1) {
          users.delete(sessionId);
          // A process that is just starting starts for the others.
          if (kept.tenancy.latest.id === sessionId) kept.tenancy.latest = [...users.values()].at(-1) as Session;
          strike(kept, sessionId);
          kept.link.leave(sessionId, reason);
          continue;
        }
        drop(kept);
        retired.delete(kept.link);
        users.delete(sessionId);
        closing.push(kept.link.close(reason));
      }
      await Promise.all(closing);
    },

    tend(now) {
      for (const kept of all()) {
        if (kept.link.isClosed()) drop(kept);
        else kept.link.tend(now);
      }
      // A link that a busy bridge stands on is needed, even while nothing is under way on it.
      const needed = new Set([...retired.keys()].flatMap((link) => (link.isBusy() ? [link, link.base] : [])));
      for (const [link, { until }] of retired) {
        link.tend(now);
        if (needed.has(link) && now < until) continue;
        retired.delete(link);
        void link.close(new AmbitError('SERVER_NOT_AVAILABLE'));
      }
    },

    async close(reason) {
      const links = [...all().map(({ link }) => link), ...retired.keys()];
      await Promise.all(links.map((link) => link.close(reason)));
      byKey.clear();
      bySession.clear();
      retired.clear();
    },

    size: () => all().length,
  };
}
