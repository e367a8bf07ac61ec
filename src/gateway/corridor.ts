import type { Governance } from '../governance/governance.ts';
import type { Journal } from '../journal/journal.ts';
import type { Refusals } from '../journal/refusals.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { RequestPace } from '../sessions/request-pace.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionMarks } from '../stores/state.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { Callers } from '../upstreams/caller.ts';
import type { Catalog } from '../upstreams/catalog/catalog.ts';
import type { Links } from '../upstreams/links.ts';
import type { Reply } from '../wire/channel.ts';
import type { OurKeys } from '../wire/our-keys.ts';
import type { Aggregate } from './aggregate/aggregate.ts';
import { allServers } from './aggregate/for-all.ts';
import type { CachedCalls } from './cached-calls.ts';
import { journeyFrom, type Next, type StageWatch } from './chain.ts';
import type { ConfirmCall } from './confirm-call.ts';
import type { Arrived, Authorized, AuthorizedForAll, InSession } from './exchange.ts';
import type { Identify } from './identify.ts';
import { type OwnTools, ownServer } from './own-tools.ts';
import type { RememberedTransports } from './remembered-transports.ts';
import type { Resolution } from './resolution.ts';
import { admit } from './stages/admit.ts';
import { answerByItself } from './stages/answer-by-itself.ts';
import { authenticate } from './stages/authenticate.ts';
import { authorize } from './stages/authorize.ts';
import { authorizeAll } from './stages/authorize-all.ts';
import { bindAddress } from './stages/bind-address.ts';
import { bindTransport } from './stages/bind-transport.ts';
import { cacheResults } from './stages/cache-results.ts';
import { checkParams } from './stages/check-params.ts';
import { forward } from './stages/forward.ts';
import { forwardToAll } from './stages/forward-to-all.ts';
import { type HeedKeyOptions, heedKey } from './stages/heed-key.ts';
import { heedToken } from './stages/heed-token.ts';
import { keepPace } from './stages/keep-pace.ts';
import { listForUser } from './stages/list-for-user.ts';
import { permitTools } from './stages/permit-tools.ts';
import { recallTransport } from './stages/recall-transport.ts';
import { record } from './stages/record.ts';
import { renewLink } from './stages/renew-link.ts';
import { type ResolveOptions, resolveSession } from './stages/resolve-session.ts';
import { type SelectOptions, selectWorkspace, standInWorkspace } from './stages/select-workspace.ts';
import { stripKeys } from './stages/strip-keys.ts';
import { noteSilence, tellContext } from './stages/tell-context.ts';
import { vetTools } from './stages/vet-tools.ts';
import type { ToolBounds } from './tool-bounds.ts';
import type { ToolListeners } from './tool-listeners.ts';
import { recordVisit, type Visit, type Visited, welcome } from './visit.ts';

export interface CorridorParts {
  readonly journal: Journal;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly includeMeta: () => boolean;
  readonly tracer: Tracer | undefined;
  readonly sessions: Sessions;
  readonly pace: RequestPace;
  readonly refusals: Refusals;
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
  readonly catalog: Catalog;
  readonly cached: CachedCalls;
  readonly confirmCall: ConfirmCall;
  readonly identify: Identify;
  readonly identity: HeedKeyOptions;
  readonly resolving: ResolveOptions;
  readonly selecting: SelectOptions;
  readonly governance: Governance;
  /** What a client may not pass on. */
  readonly keys: () => OurKeys;
  readonly watchStages: StageWatch | undefined;
}

/** The inward corridor, assembled once: HTTP, stdio, tests and the library all pass it. */
export function inwardCorridor(parts: CorridorParts): Next<Arrived, Reply> {
  const opens = ({ message }: Arrived) => message.method === 'initialize';
  const inSession = journeyFrom<Arrived, Reply>(parts.watchStages)
    .through(tellContext(parts.governance, parts.callers))
    .through(record(parts))
    .through(authenticate(parts.identify))
    .through(checkParams())
    .through(listForUser({ ...parts.resolving, pace: parts.pace }))
    .through(resolveSession(parts.resolving))
    .through(bindAddress<InSession<Arrived>, Reply>(parts.bindsAddress, parts.marks))
    .through(recallTransport<InSession<Arrived>, Reply>(parts.callers, parts.remembered))
    .through(heedToken<InSession<Arrived>, Reply>())
    .through(heedKey<InSession<Arrived>, Reply>(parts.identity))
    .through(selectWorkspace(parts.selecting))
    .through(keepPace<InSession<Arrived>, Reply>(parts.pace))
    .through(noteSilence<Arrived, Reply>(parts.governance));
  const one = inSession
    .through(authorize(parts.resolution))
    .through(admit(parts.sessions))
    .through(bindTransport<Authorized<Arrived>, Reply>(parts.callers, opens))
    .through(stripKeys(parts.keys))
    .through(permitTools(parts.tools, parts.listeners))
    .through(renewLink(parts.links))
    .through(vetTools(parts.catalog, parts.links, parts.resolution))
    .through(cacheResults(parts.cached, parts.links))
    .to(forward(parts.callers, parts.links, parts.remembered.remember, parts.confirmCall));
  const all = inSession
    .through(authorizeAll(parts.resolution))
    .through(admit(parts.sessions))
    .through(bindTransport<AuthorizedForAll<Arrived>, Reply>(parts.callers, opens))
    .through(stripKeys(parts.keys))
    .to(forwardToAll(parts.aggregate));
  const own = inSession
    .through(admit(parts.sessions))
    .through(bindTransport<InSession<Arrived>, Reply>(parts.callers, opens))
    .through(stripKeys(parts.keys))
    .to(answerByItself(parts.callers, parts.own, parts.listeners, parts.remembered.remember));
  return (exchange) => {
    if (exchange.server === allServers) return all(exchange);
    return exchange.server === ownServer ? own(exchange) : one(exchange);
  };
}

/** The same stages for those who bring no message: a stream to open (GET), a transport session to end (DELETE). */
export function visitCorridor(parts: CorridorParts): Next<Visit, Visited> {
  const never = () => false;
  const inSession = journeyFrom<Visit, Visited>()
    .through(recordVisit(parts.journal, parts.refusals))
    .through(authenticate(parts.identify))
    .through(resolveSession(parts.resolving, true))
    .through(bindAddress<InSession<Visit>, Visited>(parts.bindsAddress, parts.marks))
    .through(recallTransport<InSession<Visit>, Visited>(parts.callers, parts.remembered))
    .through(heedToken<InSession<Visit>, Visited>())
    .through(heedKey<InSession<Visit>, Visited>(parts.identity))
    .through(standInWorkspace(parts.selecting))
    .through(keepPace<InSession<Visit>, Visited>(parts.pace));
  const one = inSession
    .through(authorize(parts.resolution))
    .through(bindTransport<Authorized<Visit>, Visited>(parts.callers, never))
    .to(welcome(parts.callers, parts.remembered, parts.sessions));
  const noServer = inSession
    .through(bindTransport<InSession<Visit>, Visited>(parts.callers, never))
    .to(welcome(parts.callers, parts.remembered, parts.sessions));
  return (visit) => (visit.server === allServers || visit.server === ownServer ? noServer(visit) : one(visit));
}
