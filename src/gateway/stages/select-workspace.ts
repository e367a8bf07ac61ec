import type { Config } from '../../config/schema.ts';
import type { Log } from '../../log.ts';
import { inWorkspace } from '../../sessions/in-workspace.ts';
import type { Session } from '../../sessions/session.ts';
import type { Callers } from '../../upstreams/caller.ts';
import { createReadAnnounced, notAdmitted } from '../announced-workspace.ts';
import type { Stage } from '../chain.ts';
import { widen } from '../chain.ts';
import type { Approach, Arrived, InSession } from '../exchange.ts';
import { admittedWorkspace } from '../named-workspace.ts';

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
}

const longestShown = 100;
const mostRemarks = 16;

/**
 * Fourth on the inward corridor: the workspace a client announces. It chooses among what the session may use and never
 * widens it: a workspace that the orchestrator has set stays, whatever the client says.
 */
export function selectWorkspace<Out>(options: SelectOptions): Stage<InSession<Arrived>, InSession<Arrived>, Out> {
  const { config, log } = options;
  const remarks = new WeakMap<Session, Set<string>>();
  const announced = createReadAnnounced(config);

  /** A client may repeat itself with each call; whoever runs Ambit is told once. */
  function remark(session: Session, shown: string): void {
    const known = remarks.get(session) ?? new Set();
    remarks.set(session, known);
    if (known.has(shown) || known.size >= mostRemarks) return;
    known.add(shown);
    log.info('announced workspace ignored', {
      session: session.id,
      announced: shown,
      workspace: session.workspaceId,
    });
  }

  function selected({ session, entry }: InSession<Arrived>, asked: string): Session {
    const admitted = admittedWorkspace(config(), session, asked);
    const shown = asked.slice(0, longestShown);
    if (session.workspaceId !== undefined) {
      if (admitted === session.workspaceId) return session;
      remark(session, shown);
      entry.ignoredWorkspace = shown;
      return session;
    }
    if (admitted === undefined) throw notAdmitted(shown);
    entry.workspaceId = admitted;
    return inWorkspace(session, admitted);
  }

  return function selectWorkspace(exchange, next) {
    const { era, message } = exchange;
    if (era === 'handshake' && message.method !== 'initialize') return next(held(options, exchange));
    const asked = announced(message);
    return next(asked === undefined ? exchange : widen(exchange, { session: selected(exchange, asked) }));
  };
}

/** The same for those who bring no message: they stand where their transport session was opened. */
export function standInWorkspace<E extends Approach, Out>(
  options: SelectOptions,
): Stage<InSession<E>, InSession<E>, Out> {
  return function standInWorkspace(exchange, next) {
    return next(held(options, exchange));
  };
}

/** What was announced in the handshake holds for that client, as long as the workspace still admits its session. */
function held<E extends Approach>({ callers, config }: SelectOptions, exchange: InSession<E>): InSession<E> {
  const { session, transportId, entry } = exchange;
  const caller = transportId === undefined ? undefined : callers.get(transportId);
  const workspaceId = caller?.sessionId === session.id ? caller.workspaceId : undefined;
  if (workspaceId === undefined || session.workspaceId !== undefined) return exchange;
  if (admittedWorkspace(config(), session, workspaceId) === undefined) throw notAdmitted(workspaceId);
  entry.workspaceId = workspaceId;
  return widen(exchange, { session: inWorkspace(session, workspaceId) });
}
