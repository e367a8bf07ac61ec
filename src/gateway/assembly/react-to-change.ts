import { isDeepStrictEqual } from 'node:util';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import { prepareWorkspaceFolders } from '../../config/load/workspace-folders.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { closeLinksUsing } from '../../upstreams/auth/credential-admin.ts';
import { allServers } from '../exchange.ts';
import type { Gateway } from '../gateway.ts';
import { announceCatalogChanges, announceListChange } from '../lists/announce-lists.ts';
import { announceInbox } from '../routing/own-inbox.ts';
import { createRestrictionEnforcer, type RestrictionEnforcer } from '../sessions/enforce-restriction.ts';
import { cleanUpEndedSessions } from './clean-up-ended-sessions.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Observability } from './open-observability.ts';
import { type GatewayPipeline, openKeyCallback } from './open-pipeline.ts';
import type { Sandbox } from './open-sandbox.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';
import type { Upstreams } from './open-upstreams.ts';

export interface GatewayParts {
  readonly storage: Storage;
  readonly sandbox: Sandbox;
  readonly sessions: SessionParts;
  readonly observability: Observability;
  readonly upstreams: Upstreams;
  readonly pipeline: GatewayPipeline;
}

/** Sets up every subscription of one part to another. */
export function reactToChange(parts: GatewayParts, closing: ClosingStack): Pick<Gateway, 'reload'> {
  const { storage, sessions: own, upstreams, pipeline } = parts;
  const { sessions } = own;
  const { servers } = storage.settings;
  const bounds = createRestrictionEnforcer({ ...upstreams, ...pipeline, servers });
  announceCatalogChanges({ ...upstreams, sessions, servers });
  closing.push(watchApprovals(parts));
  watchCredentials(parts);
  watchUsers(parts);
  watchExternalKeys(parts);
  closing.push(watchMessages(parts));
  watchSessions(parts, bounds);
  // This closes first, so that the other parts still clean up after the sessions that end now.
  closing.push(async () => {
    await sessions.close();
    own.deliverLastEvents();
    await own.cleanups.stopped();
  });
  return { reload: createReload(parts, bounds) };
}

/** Ends the links of a server whose approval is withdrawn, with their calls. Returns a function that stops watching. */
function watchApprovals({ storage, upstreams }: GatewayParts): () => void {
  const { approvals, vetting, links, catalog } = upstreams;
  return approvals.onChange((names) => {
    for (const name of names.filter((each) => !vetting.wasPinnedHere(each))) {
      const server = storage.settings.servers().get(name);
      if (server !== undefined && approvals.check(server).state !== 'approved') links.retire(name);
      catalog.invalidate(name);
    }
  });
}

/** Closes links that use a changed or removed credential, and announces that lists may have changed. */
function watchCredentials({ storage, sessions: own, upstreams }: GatewayParts): void {
  const { auth, callers, forgetLists, links } = upstreams;
  auth.onChange(async (server, concerns) => {
    const closed = closeLinksUsing(links, storage.settings.servers(), server, concerns);
    forgetLists.ofCredentials(concerns);
    announceListChange(callers, [server], ({ sessionId }) =>
      concerns(own.sessions.get(sessionId)?.userId ?? '', server),
    );
    await closed;
  });
}

/** Removes the lists and credentials of a removed user. */
function watchUsers({ sessions: own, upstreams }: GatewayParts): void {
  own.onUserRemoved((userId) => {
    upstreams.forgetLists.ofUser(userId);
    return upstreams.auth.removeAllOf(userId);
  });
}

/** Ends the sessions that were opened with a key of another system when that system no longer accepts it. */
function watchExternalKeys({ storage, sessions: own, pipeline }: GatewayParts): void {
  pipeline.externalKeys.onRevoked((userId, keyId) => {
    storage.journal.record({ kind: 'gateway', event: 'key-revoked', userId, keyId });
    // If the store fails, they stay until they expire. The key itself no longer works.
    void own.sessions.endForKey(userId, keyId).catch(() => 0);
  });
}

/** Tells the subscribed clients of a session that it got a message. Returns a function that stops watching. */
function watchMessages({ storage, sessions: own, upstreams, pipeline }: GatewayParts): () => void {
  const servers = [allServers, pipeline.ownServer.name];
  return storage.store.watch((change) => {
    if (change.kind !== 'message') return;
    const session = own.sessions.get(change.id);
    // The rules may have changed since the client subscribed.
    if (session !== undefined && pipeline.inbox.isVisible(session))
      announceInbox(upstreams.callers, servers, session.id);
  });
}

/** Ends or restricts the work for a session together with the session. */
function watchSessions(parts: GatewayParts, bounds: RestrictionEnforcer): void {
  const { storage, sandbox, sessions: own, observability, upstreams, pipeline } = parts;
  const { callers, catalog, links } = upstreams;
  const { aggregate, cache, files, ownServer } = pipeline;
  const forget = (id: string) => {
    catalog.forgetSession(id);
    cache.forget(id);
  };
  const { journal, paths } = storage;
  cleanUpEndedSessions(
    { ...own, journal, observer: observability.observer, files, dataDir: paths.dataDir },
    {
      opened({ trustLevel }) {
        // The sandbox is examined ahead of the first call, which then need not wait.
        if (trustLevel === 'sandboxed') void sandbox.sandbox.check();
      },
      ended({ id }, reason) {
        callers.endSession(id);
        forget(id);
        const why = sessionGoneError(reason);
        // These listen streams belong to no link of the session.
        aggregate.endSession(id, why);
        ownServer.links.modern.dropSession(id, why);
        return links.endSession(id, why);
      },
      settled: sandbox.reaper.settled,
      restricted(session, before) {
        forget(session.id);
        return bounds.enforceRestriction(session, before);
      },
    },
  );
}

function createReload(
  { storage, sessions: own, observability, upstreams, pipeline }: GatewayParts,
  bounds: RestrictionEnforcer,
): Gateway['reload'] {
  const { settings, paths, journal } = storage;
  const { verdicts, links, catalog, forgetLists } = upstreams;
  return (next) => {
    assertOutOfReach({ ...paths, config: next });
    prepareWorkspaceFolders(next);
    const { keys } = settings.config().auth;
    const isSameCallback = isDeepStrictEqual(keys, next.auth.keys);
    const callback = isSameCallback ? undefined : openKeyCallback(next.auth.keys, paths.dataDir);
    const follow = bounds.beforeReload(own.sessions.loaded(), settings.config());
    const changed = settings.replace(next);
    follow(next);
    if (!isSameCallback) pipeline.externalKeys.replace(callback);
    verdicts.applyDefinitions(settings.servers().values());
    for (const name of changed) {
      links.retire(name);
      observability.activity.redefined(name);
      catalog.invalidate(name);
    }
    forgetLists.ofLostWorkspaces();
    journal.record({ kind: 'gateway', event: 'reloaded', changed: changed.join(' ') });
    return changed;
  };
}
