import type { Governance } from '../governance/governance.ts';
import type { RequestPace } from '../sessions/request-pace.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionMarks } from '../stores/state.ts';
import type { Callers } from '../upstreams/caller.ts';
import type { Catalog } from '../upstreams/catalog/catalog.ts';
import type { InProcessServer } from '../upstreams/definition.ts';
import type { Links } from '../upstreams/links.ts';
import type { Reply } from '../wire/channel.ts';
import type { OurKeys } from '../wire/our-keys.ts';
import type { Aggregate } from './aggregate/aggregate.ts';
import type { SendToServer } from './aggregate/send-to-server.ts';
import type { ServerCallers } from './aggregate/server-callers.ts';
import type { CachedCalls } from './cached-calls.ts';
import type { Arrived, InSession } from './exchange.ts';
import type { Identify } from './identify.ts';
import type { OwnTools } from './own-tools.ts';
import type { RememberedTransports } from './remembered-transports.ts';
import type { Resolution } from './resolution.ts';
import { type StageList, startPipeline } from './stage.ts';
import { addPolicyBlock } from './stages/add-policy-block.ts';
import { admit } from './stages/admit.ts';
import { applyTokenScopes } from './stages/apply-token-scopes.ts';
import { authenticate } from './stages/authenticate.ts';
import { authorize } from './stages/authorize.ts';
import { bindAddress } from './stages/bind-address.ts';
import { bindTransport } from './stages/bind-transport.ts';
import { cacheResults } from './stages/cache-results.ts';
import { checkParams } from './stages/check-params.ts';
import { closeStreamOnKeyRevoked, type KeyRevocation } from './stages/close-stream-on-key-revoked.ts';
import { detectIdleSession } from './stages/detect-idle-session.ts';
import { enforceToolRules } from './stages/enforce-tool-rules.ts';
import { forward, forwardRefuses } from './stages/forward.ts';
import { keepPace } from './stages/keep-pace.ts';
import { listForUser } from './stages/list-for-user.ts';
import { type RecordOptions, record } from './stages/record.ts';
import { requireApprovedTools } from './stages/require-approved-tools.ts';
import { type ResolveOptions, resolveSession } from './stages/resolve-session.ts';
import { restoreTransport } from './stages/restore-transport.ts';
import { routeTool } from './stages/route-tool.ts';
import { type SelectOptions, selectWorkspace, useTransportWorkspace } from './stages/select-workspace.ts';
import { stripKeys } from './stages/strip-keys.ts';
import type { ToolBounds } from './tool-bounds.ts';
import type { ToolListeners } from './tool-listeners.ts';
import { recordVisit, type Visit, type Visited, welcome } from './visit.ts';

export interface PipelineParts extends RecordOptions {
  readonly sessions: Sessions;
  readonly pace: RequestPace;
  readonly marks: SessionMarks;
  readonly bindsAddress: boolean;
  readonly callers: Callers;
  readonly remembered: RememberedTransports;
  readonly links: Links;
  readonly resolution: Resolution;
  readonly tools: ToolBounds;
  readonly listeners: ToolListeners;
  readonly aggregate: Aggregate;
  readonly own: OwnTools;
  readonly ownServer: InProcessServer;
  readonly serverCallers: ServerCallers;
  readonly send: SendToServer;
  readonly catalog: Catalog;
  readonly cached: CachedCalls;
  readonly identify: Identify;
  readonly identity: KeyRevocation;
  readonly resolving: ResolveOptions;
  readonly selecting: SelectOptions;
  readonly governance: Governance;
  /** The `_meta` keys that a client may not pass on. */
  readonly keys: () => OurKeys;
}

/**
 * The request pipeline. Every message passes these stages in this order, at every address, over HTTP and stdio and from
 * the library. The reply passes them in the opposite order. A new protection is one file in `stages/` and one line here.
 */
export function requestPipeline(parts: PipelineParts): StageList<Arrived, Reply> {
  const { callers, resolution, resolving, serverCallers } = parts;
  return (
    startPipeline<Arrived, Reply>()
      // First, so that a refusal carries the policy block too: the model reads a refusal like any other result.
      .use(addPolicyBlock(parts.governance, callers))
      // Before everything that can refuse, so that every refusal has its line in the journal.
      .use(record(parts))
      // Before anything reads the message: a stranger must not cost more than the check of the credential.
      .use(authenticate(parts.identify))
      // Before the first decision on the message: all later stages must read the same name in it.
      .use(checkParams())
      // Before the session is chosen, because a user's list is made from several sessions.
      .use(listForUser({ ...resolving, pace: parts.pace }))
      // The stages that follow decide about a session.
      .use(resolveSession(resolving))
      // Before the session is used for anything: a stolen token must not work at another address.
      .use(bindAddress(parts.bindsAddress, parts.marks))
      // Before the workspace is chosen, which may be the one that the transport session was opened in.
      .use(restoreTransport(callers, parts.remembered))
      // Before every decision about the session, which is narrowed here; outside of them, to add the missing scope.
      .use(applyTokenScopes<Reply>())
      // Where a stream begins, whatever becomes of it.
      .use(closeStreamOnKeyRevoked(parts.identity))
      // Before `authorize`, because the workspace decides which servers the session may use.
      .use(selectWorkspace(parts.selecting))
      // Before the first stage that may be expensive for what no quota counts.
      .use(keepPace(parts.pace))
      // Before `admit`, which counts every message as use and so ends the idle time.
      .use(detectIdleSession(parts.governance))
      // Before everything that may refuse this call: refused calls are counted too, so that a flood of them is bounded.
      .use(admit(parts.sessions))
      // Before the transport: a client of a server that the session may not use learns nothing about the server.
      .use(authorize(resolution, parts.ownServer))
      // After `admit`, so that a session that has ended says so rather than "initialize again".
      .use(bindTransport<InSession<Arrived>>(callers, opensTransport))
      // Before anything is sent, kept or compared with what was kept.
      .use(stripKeys(parts.keys))
      // Before the stages that decide about one tool of one server: they need its own name.
      .use(routeTool({ server: parts.ownServer, own: parts.own, resolution, look: parts.aggregate.look }))
      // Before the server is asked for anything: a call that is denied does not start it.
      .use(enforceToolRules(parts.tools, parts.listeners))
      // After the rules, because it may have to start the server and ask for its tools.
      .use(requireApprovedTools(parts.catalog, resolution, serverCallers))
      // Last, so that everything that can refuse a call has been asked before a kept result is given again.
      .use(cacheResults(parts.cached, serverCallers))
      // The end: after the last decision, the message goes to its server.
      .end(forward({ ...parts, remember: parts.remembered.remember }), forwardRefuses)
  );
}

/**
 * The pipeline of requests without a message: a stream to open (GET), a transport session to end (DELETE). The stages
 * stand in the same order as above.
 */
export function transportPipeline(parts: PipelineParts): StageList<Visit, Visited> {
  const { callers, remembered, sessions } = parts;
  return startPipeline<Visit, Visited>()
    .use(recordVisit(parts.journal, parts.refusals))
    .use(authenticate(parts.identify))
    .use(resolveSession(parts.resolving, true))
    .use(bindAddress(parts.bindsAddress, parts.marks))
    .use(restoreTransport(callers, remembered))
    .use(applyTokenScopes<Visited>())
    .use(closeStreamOnKeyRevoked(parts.identity))
    .use(useTransportWorkspace(parts.selecting))
    .use(keepPace(parts.pace))
    .use(authorize(parts.resolution, parts.ownServer))
    .use(bindTransport(callers, () => false))
    .end(welcome(callers, remembered, sessions));
}

function opensTransport({ message }: Arrived): boolean {
  return message.method === 'initialize';
}
