import { join } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import {
  createExternalKeys,
  type ExternalKeys,
  isExternalKeyId,
  type KeyCallback,
} from '../../identity/external-keys.ts';
import { createJwtIdentity } from '../../identity/jwt/jwt-identity.ts';
import { openWebhookKey, readWebhookKey } from '../../sessions/events/webhook.ts';
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
export interface GatewayPipeline
  extends OwnToolParts,
    Pick<Gateway, 'serve' | 'handleTransport' | 'identify' | 'jwt' | 'holdKey'> {
  readonly externalKeys: ExternalKeys;
  readonly aggregate: Aggregate;
  readonly cache: ResultCache;
  readonly listeners: ToolListeners;
}

interface PipelineOptions extends Omit<GatewayParts, 'pipeline'> {
  readonly options: Pick<GatewayOptions, 'watchStages' | 'arrangeStages' | 'embeddings'>;
}

export async function openPipeline(options: PipelineOptions, closing: ClosingStack): Promise<GatewayPipeline> {
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
  const { ownTools, ownServer, inbox, createListReply } = owned;
  const listeners = createToolListeners();
  const transports = openTransportStore(options, ownServer);
  const serverCallers = createServerCallers(links);
  const recheckCall = createRecheckCall(resolution, () => stages.stages);
  const send = createSendToServer({ links, callers, serverCallers, recheckCall });
  const aggregate = createAggregate({
    ...upstreams,
    ownTools,
    ownServer,
    inbox,
    serverCallers,
    send,
    saveTransport: transports.save,
    createListReply,
  });
  const jwt = createJwtIdentity(first.auth.jwt, log);
  const { keys } = directory;
  const externalKeys = await openExternalKeys(options, closing);
  const { anonymous, onInvalidKey } = first.auth;
  const verifyJwt = jwt?.verify;
  const identify = createIdentify({
    sessions,
    keys,
    externalKeys: {
      mayBeKey: externalKeys.mayBeKey,
      // All callers behind a proxy have its address.
      verify: (presented, address) => externalKeys.verify(presented, first.listen.behindProxy ? undefined : address),
    },
    verifyJwt,
    log,
    anonymous,
    onInvalidKey,
  });
  const stageParts: PipelineParts = {
    ...storage,
    ...parts,
    ...upstreams,
    ...options.observability,
    includeMeta: () => config().sessions.includeMeta,
    noteTool: parts.team.noteTool,
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
    identity: {
      verifyKey: (presented) => (presented.kind === 'ambk' ? keys : externalKeys).verify(presented),
      onRevoked(listener) {
        directory.onRevoked(listener);
        externalKeys.onRevoked(listener);
      },
    },
    selecting: { config, callers, log, ownTools },
    keys: settings.keys,
    resolving: {
      sessions,
      callers,
      chooseWorkspace: createChooseWorkspace(config),
      findTransportSession: transports.findSession,
      ...createUserSessions({
        sessions,
        keys: { isGood: async (id) => (isExternalKeyId(id) ? externalKeys.isGood(id) : keys.isGood(id)) },
        open: parts.open,
        log,
      }),
    },
  };
  const { watchStages, arrangeStages: arrange = (list) => list } = options.options;
  const stages = arrange(requestPipeline(stageParts));
  const serve = composeRequestStages(stages, resolution.revision, watchStages);
  const handleTransport = composeStages(transportPipeline(stageParts));
  return {
    ...owned,
    serve,
    handleTransport,
    identify,
    jwt,
    externalKeys,
    holdKey: (principal, credential) =>
      principal.kind === 'user' && isExternalKeyId(principal.keyId) && credential.kind === 'bearer'
        ? externalKeys.hold(principal, credential.presented)
        : undefined,
    aggregate,
    cache,
    listeners,
  };
}

async function openExternalKeys(
  { storage, observability }: PipelineOptions,
  closing: ClosingStack,
): Promise<ExternalKeys> {
  const { log, config, paths } = storage;
  const externalKeys = createExternalKeys({ log, onResult: observability.metrics.externalKeyVerified });
  closing.push(externalKeys.close);
  const callback = openKeyCallback(config.auth.keys, paths.dataDir);
  await callback?.secret;
  externalKeys.replace(callback);
  return externalKeys;
}

/** Opens the callback of a configuration, if it has one. Throws if the configured secret cannot be used. */
export function openKeyCallback(settings: Config['auth']['keys'], dataDir: string): KeyCallback | undefined {
  if (settings === undefined) return undefined;
  const { secretFile, ...callback } = settings;
  const key = 'auth.keys.secretFile';
  const secret =
    secretFile === undefined
      ? openWebhookKey(join(dataDir, 'key-callback-secret'), undefined, key)
      : readWebhookKey({ file: secretFile, key });
  return { ...callback, secret };
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
