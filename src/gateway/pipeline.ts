import type { Governance } from '../context/for-models/governance.ts';
import type { FinalReply } from '../protocol/channel.ts';
import type { ReservedKeys } from '../protocol/reserved-meta.ts';
import type { RequestRateLimit } from '../sessions/request-rate.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionMarks } from '../stores/state.ts';
import type { ToolAccess } from '../upstreams/access/tool-access.ts';
import type { Catalog } from '../upstreams/catalog/catalog.ts';
import type { Approvals } from '../upstreams/pins/approvals.ts';
import type { CallCache } from './cache/call-cache.ts';
import type { Exchange, SessionExchange } from './exchange.ts';
import type { ToolListeners } from './lists/announce-lists.ts';
import type { CreateListReply } from './routing/collect-lists.ts';
import type { ServerCallers } from './routing/server-callers.ts';
import type { ActivityTracker } from './session-activity.ts';
import type { TransportStore } from './sessions/transport-store.ts';
import { type StageList, startPipeline } from './stage.ts';
import { addPolicyBlock } from './stages/add-policy-block.ts';
import { admit } from './stages/admit.ts';
import { applyTokenScopes } from './stages/apply-token-scopes.ts';
import { authenticate, type Identify } from './stages/authenticate.ts';
import { authorize } from './stages/authorize.ts';
import { bindAddress } from './stages/bind-address.ts';
import { bindTransport } from './stages/bind-transport.ts';
import { cacheResults } from './stages/cache-results.ts';
import { checkParamHeaders } from './stages/check-param-headers.ts';
import { checkParams } from './stages/check-params.ts';
import { closeStreamOnKeyRevoked, type KeyRevocation } from './stages/close-stream-on-key-revoked.ts';
import { detectIdleSession } from './stages/detect-idle-session.ts';
import { enforceToolRules } from './stages/enforce-tool-rules.ts';
import { type ForwardParts, forward, forwardRefuses } from './stages/forward.ts';
import {
  handleTransport,
  recordTransport,
  type TransportRequest,
  type TransportResult,
} from './stages/handle-transport.ts';
import { keepPace } from './stages/keep-pace.ts';
import { listForUser } from './stages/list-for-user.ts';
import { type RecordOptions, record } from './stages/record.ts';
import { requireApprovedTools } from './stages/require-approved-tools.ts';
import { type ResolveSessionOptions, resolveSession } from './stages/resolve-session.ts';
import { restoreTransport } from './stages/restore-transport.ts';
import { type RouteParts, routeTool } from './stages/route-tool.ts';
import { type SelectOptions, selectWorkspace, useTransportWorkspace } from './stages/select-workspace.ts';
import { stripKeys } from './stages/strip-keys.ts';

export interface PipelineParts extends RecordOptions, RouteParts, Omit<ForwardParts, 'saveTransport'> {
  readonly sessions: Sessions;
  readonly pace: RequestRateLimit;
  readonly sessionActivity: ActivityTracker;
  readonly marks: SessionMarks;
  readonly bindsAddress: boolean;
  readonly transports: TransportStore;
  readonly tools: ToolAccess;
  readonly listeners: ToolListeners;
  readonly serverCallers: ServerCallers;
  readonly createListReply: CreateListReply;
  readonly approvals: Approvals;
  readonly catalog: Catalog;
  readonly callCache: CallCache;
  readonly identify: Identify;
  readonly identity: KeyRevocation;
  readonly resolving: ResolveSessionOptions;
  readonly selecting: SelectOptions;
  readonly governance: Governance;
  /** The `_meta` keys that a client may not pass on. */
  readonly keys: () => ReservedKeys;
}

/**
 * The request pipeline. Every message of a client passes these stages in this order, at every address, over HTTP and stdio
 * and from the library. Stages that it does not need are skipped (`compose.ts`). The reply passes them in the opposite
 * order. A new protection is one file in `stages/` and one line here.
 */
export function requestPipeline(parts: PipelineParts): StageList<Exchange, FinalReply> {
  const { callers, resolution, resolving, serverCallers } = parts;
  return (
    startPipeline<Exchange, FinalReply>()
      // Outside of `record`, which turns a refusal into a reply, so that refusals carry the policy block too.
      .use(addPolicyBlock(parts))
      // Before everything that can refuse, so that it sees every refusal and writes it to the journal.
      .use(record(parts))
      // Before anything is decided by the message. The HTTP entrance has checked the credential once already.
      .use(authenticate(parts.identify))
      // Before the first decision about the message, so that all later stages read the same tool name.
      .use(checkParams())
      // Before the session is chosen, because a user's list is made from several sessions.
      .use(listForUser({ ...resolving, pace: parts.pace }))
      // The stages that follow decide about a session.
      .use(resolveSession(resolving))
      // Before the session is used for anything: a stolen token must not work from another network address.
      .use(bindAddress(parts.bindsAddress, parts.marks))
      // Before `selectWorkspace`, which may need the workspace of the transport session.
      .use(restoreTransport(callers, parts.transports))
      // Around all stages that check permissions: the token narrows them, and the missing scope is added to their refusals.
      .use(applyTokenScopes<FinalReply>())
      // As soon as the session is known, so that every open stream is watched.
      .use(closeStreamOnKeyRevoked(parts.identity))
      // Before `authorize`, because the workspace decides which servers the session may use.
      .use(selectWorkspace(parts.selecting))
      // Before servers are involved. It limits all requests except calls of tools, which `admit` counts.
      .use(keepPace(parts.pace))
      // Before `admit`, which resets the idle time.
      .use(detectIdleSession(parts.governance))
      // Before the stages that decide about servers and tools, so that the calls that they refuse are counted too.
      .use(admit(parts.sessions, parts.pace, parts.sessionActivity))
      // Before `bindTransport`, so that a client learns nothing about a server that it may not use.
      .use(authorize(resolution, parts.ownServer))
      // After `admit`, so that the client of an ended session gets `SESSION_ENDED` rather than "initialize again".
      .use(bindTransport<SessionExchange<Exchange>>(callers, opensTransport))
      // Before anything is sent, cached or looked up in the cache.
      .use(stripKeys(parts.keys))
      // Before the stages that decide about one tool of one server: they need the name that the server uses.
      .use(routeTool(parts))
      // Before `requireApprovedTools`, which may start the server: a call that is denied does not start it.
      .use(enforceToolRules(parts.tools, parts.listeners))
      // Before `requireApprovedTools`, which answers some lists of tools itself: this stage reads the lists.
      .use(checkParamHeaders(parts.catalog, resolution, serverCallers))
      // After the rules, because it may have to start the server and ask for its tools.
      .use(requireApprovedTools(parts.approvals, parts.catalog, resolution, serverCallers, parts.createListReply))
      // After everything that can refuse a call, so that a cached result is returned only for a permitted call.
      .use(cacheResults(parts.callCache, serverCallers))
      // The end: the message goes to its server, or the aggregate answers it. The link checks once more before it sends.
      .end(forward({ ...parts, saveTransport: parts.transports.save }), forwardRefuses)
  );
}

/**
 * The pipeline of requests without a message: a stream to open (GET), a transport session to end (DELETE), the check
 * before a batch (POST). The stages that are in both lists have the same order.
 */
export function transportPipeline(parts: PipelineParts): StageList<TransportRequest, TransportResult> {
  const { callers, transports, sessions } = parts;
  return startPipeline<TransportRequest, TransportResult>()
    .use(recordTransport(parts.journal, parts.refusals))
    .use(authenticate(parts.identify))
    .use(resolveSession(parts.resolving, true))
    .use(bindAddress(parts.bindsAddress, parts.marks))
    .use(restoreTransport(callers, transports))
    .use(applyTokenScopes<TransportResult>())
    .use(closeStreamOnKeyRevoked(parts.identity))
    .use(useTransportWorkspace(parts.selecting))
    .use(keepPace(parts.pace))
    .use(authorize(parts.resolution, parts.ownServer))
    .use(bindTransport(callers, () => false))
    .end(handleTransport(callers, transports, sessions));
}

function opensTransport({ message }: Exchange): boolean {
  return message.method === 'initialize';
}
