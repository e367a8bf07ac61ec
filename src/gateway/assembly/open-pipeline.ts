import { createJwtIdentity } from '../../identity/jwt/jwt-identity.ts';
import { createRequestPace } from '../../sessions/request-rate.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { InProcessServer } from '../../upstreams/definition.ts';
import { absentLink } from '../../upstreams/links/absent-link.ts';
import { createCachedCalls } from '../cache/cached-calls.ts';
import { createResultCache, type ResultCache } from '../cache/result-cache.ts';
import { composeRequestStages, composeStages } from '../compose.ts';
import type { Gateway } from '../gateway.ts';
import type { GatewayOptions } from '../gateway-options.ts';
import { createIdentify } from '../identify.ts';
import { createToolListeners, type ToolListeners } from '../lists/tool-listeners.ts';
import { type PipelineParts, requestPipeline, transportPipeline } from '../pipeline.ts';
import { createRecheckCall } from '../recheck-call.ts';
import { type Aggregate, createAggregate } from '../routing/aggregate.ts';
import { createComposite } from '../routing/children.ts';
import { allServers } from '../routing/for-all.ts';
import { createSendToServer } from '../routing/send-to-server.ts';
import { createServerCallers } from '../routing/server-callers.ts';
import { createWorkspaceMeant } from '../sessions/announced-workspace.ts';
import { createRememberedTransports } from '../sessions/remembered-transports.ts';
import { createSessionsOfUsers } from '../sessions/sessions-of-users.ts';
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
  readonly options: Pick<GatewayOptions, 'watchStages' | 'arrangeStages'>;
}

export function openPipeline(options: PipelineOptions, closing: ClosingStack): Pipeline {
  const { storage, sessions: parts, upstreams } = options;
  const { settings, config: first, log } = storage;
  const { config } = settings;
  const { sessions, directory, folders } = parts;
  const { callers, catalog, links, resolution } = upstreams;
  const cache = createResultCache();
  closing.push(cache.close);
  const { metrics } = options.observability;
  const looked = metrics.cacheLooked;
  const cached = createCachedCalls({ cache, config, catalog, resolution, looked, isApart: folders.isApart });
  const owned = openOwnTools({ ...options, access: upstreams }, closing);
  const { own, ownServer } = owned;
  const listeners = createToolListeners();
  const remembered = openTransports(options, ownServer);
  const serverCallers = createServerCallers(links);
  const recheckCall = createRecheckCall(resolution, () => stages.stages);
  const send = createSendToServer({ links, callers, serverCallers, recheckCall });
  const aggregate = createAggregate({ ...upstreams, own, serverCallers, send, remember: remembered.remember });
  const jwt = createJwtIdentity(first.auth.jwt, log);
  const identify = createIdentify({ sessions, keys: directory.keys, verifyJwt: jwt?.verify, log, ...first.auth });
  const stageParts: PipelineParts = {
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
    ownServer,
    serverCallers,
    send,
    cached,
    identify,
    identity: { keys: directory.keys, onRevoked: directory.onRevoked },
    selecting: { config, callers, log },
    keys: settings.keys,
    resolving: {
      sessions,
      callers,
      workspaceMeant: createWorkspaceMeant(config),
      whose: remembered.whose,
      ...createSessionsOfUsers({ sessions, keys: directory.keys, open: parts.open, log }),
    },
  };
  const { watchStages, arrangeStages: arrange = (list) => list } = options.options;
  const stages = arrange(requestPipeline(stageParts));
  const serve = composeRequestStages(stages, resolution.revision, watchStages);
  const visit = composeStages(transportPipeline(stageParts));
  return { ...owned, serve, visit, identify, jwt, aggregate, cache, listeners };
}

function openTransports({ storage, sessions: parts, upstreams }: PipelineOptions, own: InProcessServer) {
  const { callers, links } = upstreams;
  return createRememberedTransports({
    marks: storage.store.marks,
    callers,
    sessions: parts.sessions,
    linkFor(session, server, initialize) {
      if (server === allServers) return createComposite(session, initialize, links, callers);
      if (server === own.name) return own.links.handshake;
      return absentLink(session.id, placeOf(session), server);
    },
    forgotten: parts.governance.forget,
  });
}
