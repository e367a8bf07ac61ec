import { assertOutOfReach } from '../../config/load/protect.ts';
import { goneBecause } from '../../sessions/session.ts';
import { closeLinksUsing } from '../../upstreams/auth/given-credentials.ts';
import type { Gateway } from '../gateway.ts';
import { announceChange } from '../lists/announce.ts';
import { announceLists } from '../lists/announce-lists.ts';
import { createKeepInBounds, type KeepInBounds } from '../sessions/keep-in-bounds.ts';
import { cleanUpEndedSessions } from './clean-up-ended-sessions.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Observability } from './open-observability.ts';
import type { Pipeline } from './open-pipeline.ts';
import type { Sandbox } from './open-sandbox.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';
import type { Upstreams } from './open-upstreams.ts';

export interface AllParts {
  readonly storage: Storage;
  readonly sandbox: Sandbox;
  readonly sessions: SessionParts;
  readonly observability: Observability;
  readonly upstreams: Upstreams;
  readonly pipeline: Pipeline;
}

/** Every subscription of one part to another: what happens elsewhere when something changes. */
export function reactToChange(parts: AllParts, closing: ClosingStack): Pick<Gateway, 'reload'> {
  const { storage, sessions: own, upstreams, pipeline } = parts;
  const { sessions } = own;
  const { servers } = storage.settings;
  const bounds = createKeepInBounds({ ...upstreams, ...pipeline, servers });
  announceLists({ ...upstreams, sessions, servers });
  closing.push(followApprovals(parts));
  followCredentials(parts);
  followUsers(parts);
  followSessions(parts, bounds);
  // Closes first: what ends now is still cleaned up by all the others.
  closing.push(async () => {
    await sessions.close();
    own.deliverLastEvents();
    await own.endings.stopped();
  });
  return { reload: createReload(parts, bounds) };
}

/** Ends what runs under an approval that is no longer given, with what is under way. Returns how to stop. */
function followApprovals({ storage, upstreams }: AllParts): () => void {
  const { approvals, vetting, links, catalog } = upstreams;
  return approvals.onChange((names) => {
    for (const name of names.filter((each) => !vetting.pinnedJustNow(each))) {
      const server = storage.settings.servers().get(name);
      if (server !== undefined && approvals.check(server).state !== 'approved') links.retire(name);
      catalog.describedAnew(name);
    }
  });
}

/** Ends what carries a credential that is another now or gone, and tells those whose lists may be others. */
function followCredentials({ storage, sessions: own, upstreams }: AllParts): void {
  const { auth, callers, forgetLists, links } = upstreams;
  auth.onChange(async (server, concerns) => {
    const closed = closeLinksUsing(links, storage.settings.servers(), server, concerns);
    forgetLists.ofCredentials(concerns);
    announceChange(callers, [server], ({ sessionId }) => concerns(own.sessions.get(sessionId)?.userId ?? '', server));
    await closed;
  });
}

/** Removes what was kept for a user who was removed. */
function followUsers({ sessions: own, upstreams }: AllParts): void {
  own.onUserRemoved((userId) => {
    upstreams.forgetLists.ofUser(userId);
    return upstreams.auth.removeAllOf(userId);
  });
}

/** Ends or narrows what is at work for a session together with it. */
function followSessions(parts: AllParts, bounds: KeepInBounds): void {
  const { storage, sandbox, sessions: own, observability, upstreams, pipeline } = parts;
  const { callers, catalog, links } = upstreams;
  const { aggregate, cache, files, ownServer } = pipeline;
  const forget = (id: string) => {
    catalog.forget(id);
    cache.forget(id);
  };
  const { journal, places } = storage;
  cleanUpEndedSessions(
    { ...own, journal, observer: observability.observer, files, dataDir: places.dataDir },
    {
      opened({ trustLevel }) {
        // Ahead of its first call, which then need not wait for it.
        if (trustLevel === 'sandboxed') void sandbox.sandbox.look();
      },
      ended({ id }, reason) {
        callers.endSession(id);
        forget(id);
        const why = goneBecause(reason);
        // The listen streams that stand on no link of the session.
        aggregate.leave(id, why);
        ownServer.links.modern.leave(id, why);
        return links.endSession(id, why);
      },
      settled: sandbox.warden.settled,
      restricted(session, before) {
        forget(session.id);
        return bounds.restricted(session, before);
      },
    },
  );
}

function createReload({ storage, sessions: own, upstreams }: AllParts, bounds: KeepInBounds): Gateway['reload'] {
  const { settings, places, journal } = storage;
  const { verdicts, links, catalog, forgetLists } = upstreams;
  return (next) => {
    assertOutOfReach({ ...places, config: next });
    const follow = bounds.beforeReload(own.sessions.held(), settings.config());
    const changed = settings.replace(next);
    follow(next);
    verdicts.describeAll(settings.servers().values());
    for (const name of changed) {
      links.retire(name);
      catalog.describedAnew(name);
    }
    forgetLists.ofLostWorkspaces();
    journal.record({ kind: 'gateway', event: 'reloaded', changed: changed.join(' ') });
    return changed;
  };
}
