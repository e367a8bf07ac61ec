import { createResultCache, type ResultCache } from '../../cache/result-cache.ts';
import { placeOf } from '../../sessions/in-workspace.ts';
import { createRequestPace } from '../../sessions/request-pace.ts';
import { absentLink } from '../../upstreams/absent-link.ts';
import { type Aggregate, createAggregate } from '../aggregate/aggregate.ts';
import { createComposite } from '../aggregate/children.ts';
import { allServers } from '../aggregate/for-all.ts';
import { createWorkspaceMeant } from '../announced-workspace.ts';
import { createCachedCalls } from '../cached-calls.ts';
import { createConfirmCall } from '../confirm-call.ts';
import { type CorridorParts, inwardCorridor, visitCorridor } from '../corridor.ts';
import type { Gateway } from '../gateway.ts';
import type { GatewayOptions } from '../gateway-options.ts';
import { createIdentify } from '../identify.ts';
import { createJwtIdentity } from '../jwt-identity.ts';
import { ownServer } from '../own-tools.ts';
import { quietLink } from '../quiet-link.ts';
import { createRememberedTransports } from '../remembered-transports.ts';
import { createSessionsOfUsers } from '../sessions-of-users.ts';
import { createToolListeners, type ToolListeners } from '../tool-listeners.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Observability } from './open-observability.ts';
import { type OwnToolParts, openOwnTools } from './open-own-tools.ts';
import type { Sandbox } from './open-sandbox.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';
import type { Upstreams } from './open-upstreams.ts';

/** The way of a request, and what its stages keep. */
export interface Pipeline extends OwnToolParts, Pick<Gateway, 'serve' | 'visit' | 'identify' | 'jwt'> {
  readonly aggregate: Aggregate;
  readonly cache: ResultCache;
  readonly listeners: ToolListeners;
}

export interface PipelineOptions {
  readonly storage: Storage;
  readonly sandbox: Sandbox;
  readonly sessions: SessionParts;
  readonly observability: Observability;
  readonly upstreams: Upstreams;
  readonly watchStages: GatewayOptions['watchStages'];
}

export function openPipeline(options: PipelineOptions, closing: ClosingStack): Pipeline {
  const { storage, sessions: parts, upstreams } = options;
  const { settings, config: first, log } = storage;
  const { config } = settings;
  const { sessions, directory, folders } = parts;
  const { callers, catalog, resolution, tools, approvals } = upstreams;
  const cache = createResultCache();
  closing.push(cache.close);
  const { metrics } = options.observability;
  const looked = metrics.cacheLooked;
  const cached = createCachedCalls({ cache, config, catalog, resolution, looked, isApart: folders.isApart });
  const owned = openOwnTools({ ...options, access: upstreams }, closing);
  const { own } = owned;
  const listeners = createToolListeners();
  const confirmCall = createConfirmCall({ resolution, tools, approvals });
  const remembered = openTransports(options);
  const { remember } = remembered;
  const aggregate = createAggregate({ ...upstreams, cached, own, confirmCall, remember });
  const jwt = createJwtIdentity(first.auth.jwt, log);
  const identify = createIdentify({ sessions, keys: directory.keys, verifyJwt: jwt?.verify, log, ...first.auth });
  const corridor: CorridorParts = {
    ...storage,
    ...parts,
    ...upstreams,
    ...options.observability,
    includeMeta: () => config().sessions.includeMeta,
    pace: createRequestPace({ callsPerMinute: () => config().quotas.session.callsPerMinute }),
    marks: storage.store.marks,
    bindsAddress: first.sessions.bindAddress,
    remembered,
    listeners,
    aggregate,
    own,
    cached,
    confirmCall,
    identify,
    identity: { keys: directory.keys, onRevoked: directory.onRevoked },
    selecting: { config, callers, log },
    keys: settings.keys,
    watchStages: options.watchStages,
    resolving: {
      sessions,
      callers,
      workspaceMeant: createWorkspaceMeant(config),
      whose: remembered.whose,
      ...createSessionsOfUsers({ sessions, keys: directory.keys, open: parts.open, log }),
    },
  };
  const [serve, visit] = [inwardCorridor(corridor), visitCorridor(corridor)];
  return { ...owned, serve, visit, identify, jwt, aggregate, cache, listeners };
}

function openTransports({ storage, sessions: parts, upstreams }: PipelineOptions) {
  const { callers, links } = upstreams;
  return createRememberedTransports({
    marks: storage.store.marks,
    callers,
    sessions: parts.sessions,
    linkFor(session, server, initialize) {
      if (server === allServers) return createComposite(session, initialize, links, callers);
      if (server === ownServer) return quietLink(session, ownServer);
      return absentLink(session.id, placeOf(session), server);
    },
    forgotten: parts.governance.forget,
  });
}
