import { createJwtIdentity } from '../../identity/jwt/jwt-identity.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import { createRequestRateLimit } from '../../sessions/request-rate.ts';
import { createUserSessions } from '../../sessions/user-sessions.ts';
import type { InProcessServer } from '../../upstreams/definition.ts';
import { disconnectedLink } from '../../upstreams/links/link.ts';
import { createCallCache } from '../cache/call-cache.ts';
import { createResultCache, type ResultCache } from '../cache/result-cache.ts';
import { composeRequestStages, composeStages } from '../compose.ts';
import { allServers } from '../exchange.ts';
import type { Gateway, GatewayOptions } from '../gateway.ts';
import { createToolListeners, type ToolListeners } from '../lists/announce-lists.ts';
import { type PipelineParts, requestPipeline, transportPipeline } from '../pipeline.ts';
import { type Aggregate, createAggregate } from '../routing/aggregate.ts';
import { createCompositeLink } from '../routing/composite-link.ts';
import { createRecheckCall, createSendToServer } from '../routing/send-to-server.ts';
import { createServerCallers } from '../routing/server-callers.ts';
import { createTransportStore } from '../sessions/transport-store.ts';
import { createIdentify } from '../stages/authenticate.ts';
import { createChooseWorkspace } from '../stages/select-workspace.ts';
import type { ClosingStack } from './closing-stack.ts';
import { type OwnToolParts, openOwnTools } from './open-own-tools.ts';
import type { GatewayParts } from './react-to-change.ts';

/** The pipelines, and the state of their stages that other parts need. */
export interface GatewayPipeline extends OwnToolParts, Pick<Gateway, 'serve' | 'handleTransport' | 'identify' | 'jwt'> {
  readonly aggregate: Aggregate;
  readonly cache: ResultCache;
  readonly listeners: ToolListeners;
}

interface PipelineOptions extends Omit<GatewayParts, 'pipeline'> {
  readonly options: Pick<GatewayOptions, 'watchStages' | 'arrangeStages' | 'embeddings'>;
}

export function openPipeline(options: PipelineOptions, closing: ClosingStack): GatewayPipeline {
  const { storage, sessions: parts, upstreams } = options;
  const { settings, config: first, log } = storage;
  const { config } = settings;
  const { sessions, directory } = parts;
  const { callers, catalog, links, resolution } = upstreams;
  const cache = createResultCache();
  closing.push(cache.close);
  const { cacheLookedUp: onLookup } = options.observability.metrics;
  const { hasOwnFolder } = parts.folders;
  const callCache = createCallCache({ cache, config, catalog, resolution, onLookup, hasOwnFolder });
  const owned = openOwnTools({ ...options, access: upstreams, embeddings: options.options.embeddings }, closing);
  const { ownTools, ownServer, createListReply } = owned;
  const listeners = createToolListeners();
  const transports = openTransportStore(options, ownServer);
  const serverCallers = createServerCallers(links);
  const recheckCall = createRecheckCall(resolution, () => stages.stages);
  const send = createSendToServer({ links, callers, serverCallers, recheckCall });
  const aggregate = createAggregate({
    ...upstreams,
    ownTools,
    serverCallers,
    send,
    saveTransport: transports.save,
    createListReply,
  });
  const jwt = createJwtIdentity(first.auth.jwt, log);
  const identify = createIdentify({ sessions, keys: directory.keys, verifyJwt: jwt?.verify, log, ...first.auth });
  const stageParts: PipelineParts = {
    ...storage,
    ...parts,
    ...upstreams,
    ...options.observability,
    includeMeta: () => config().sessions.includeMeta,
    pace: createRequestRateLimit({ callsPerMinute: () => config().quotas.session.callsPerMinute }),
    marks: storage.store.marks,
    bindsAddress: first.sessions.bindAddress,
    transports,
    listeners,
    aggregate,
    ownTools,
    ownServer,
    createListReply,
    serverCallers,
    send,
    callCache,
    identify,
    identity: { keys: directory.keys, onRevoked: directory.onRevoked },
    selecting: { config, callers, log },
    keys: settings.keys,
    resolving: {
      sessions,
      callers,
      chooseWorkspace: createChooseWorkspace(config),
      findTransportSession: transports.findSession,
      ...createUserSessions({ sessions, keys: directory.keys, open: parts.open, log }),
    },
  };
  const { watchStages, arrangeStages: arrange = (list) => list } = options.options;
  const stages = arrange(requestPipeline(stageParts));
  const serve = composeRequestStages(stages, resolution.revision, watchStages);
  const handleTransport = composeStages(transportPipeline(stageParts));
  return { ...owned, serve, handleTransport, identify, jwt, aggregate, cache, listeners };
}

function openTransportStore({ storage, sessions: parts, upstreams }: PipelineOptions, own: InProcessServer) {
  const { callers, links } = upstreams;
  return createTransportStore({
    marks: storage.store.marks,
    callers,
    sessions: parts.sessions,
    linkFor(session, server, initialize) {
      if (server === allServers) return createCompositeLink(session, initialize, links, callers);
      if (server === own.name) return own.links.handshake;
      return disconnectedLink(session.id, sessionScopeKey(session), server);
    },
    onForgotten: parts.governance.forget,
  });
}
