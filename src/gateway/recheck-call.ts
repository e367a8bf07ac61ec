import type { Message } from '../protocol/message.ts';
import type { Session } from '../sessions/session.ts';
import type { Resolution } from '../upstreams/access/resolution.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Decided } from './exchange.ts';
import type { StageInfo } from './stage.ts';

/** Makes the check that is asked when an admitted request is sent. See `Acting.confirm`. */
export type RecheckCall = (decided: Decided, server: ServerDefinition, message: Message) => () => Session;

/**
 * A request may wait between the decision about it and the moment its server gets it: for a process, a handshake, a list.
 * Where anything that the decision rests on has changed meanwhile, the stages check the request again.
 */
export function createRecheckCall(resolution: Resolution, stages: () => readonly StageInfo[]): RecheckCall {
  return ({ session, decidedAt }, { name }, message) =>
    () => {
      if (resolution.revision() === decidedAt && resolution.isLatest(session)) return session;
      const current = resolution.current(session, name);
      for (const { recheck } of stages()) recheck?.({ ...current, message });
      return current.session;
    };
}
