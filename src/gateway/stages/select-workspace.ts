import type { Config } from '../../config/schema/schema.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Session } from '../../sessions/session.ts';
import { inWorkspace } from '../../sessions/session-views.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Arrived, InSession } from '../exchange.ts';
import { createReadAnnounced, notAdmitted } from '../sessions/announced-workspace.ts';
import { admittedWorkspace } from '../sessions/named-workspace.ts';
import type { BeforeStage } from '../stage.ts';

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
}

interface Placed {
  readonly session: Session;
}

const longestShown = 100;
const mostRemarks = 16;

/**
 * Puts the session into the workspace that its client announces. The client chooses among the workspaces that the session
 * may use. A workspace that the orchestrator has set stays, whatever the client says.
 */
export function selectWorkspace(options: SelectOptions): BeforeStage<InSession<Arrived>, Placed | undefined> {
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

  return {
    name: 'selectWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before(exchange) {
      const { era, message } = exchange;
      if (era === 'handshake' && message.method !== 'initialize') return held(options, exchange);
      const asked = announced(message);
      return asked === undefined ? undefined : { session: selected(exchange, asked) };
    },
  };
}

/** Puts the session into the workspace in which its transport session was opened. It is for requests without a message. */
export function useTransportWorkspace(options: SelectOptions): BeforeStage<InSession, Placed | undefined> {
  return {
    name: 'useTransportWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before: (exchange) => held(options, exchange),
  };
}

/** What was announced in the handshake holds for that client, as long as the workspace still admits its session. */
function held({ callers, config }: SelectOptions, exchange: InSession): Placed | undefined {
  const { session, transportId, entry } = exchange;
  const caller = transportId === undefined ? undefined : callers.get(transportId);
  const workspaceId = caller?.sessionId === session.id ? caller.workspaceId : undefined;
  if (workspaceId === undefined || session.workspaceId !== undefined) return undefined;
  if (admittedWorkspace(config(), session, workspaceId) === undefined) throw notAdmitted(workspaceId);
  entry.workspaceId = workspaceId;
  return { session: inWorkspace(session, workspaceId) };
}
