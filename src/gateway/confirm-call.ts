import type { Approvals } from '../approvals/approvals.ts';
import { assertApproved } from '../approvals/assert-approved.ts';
import type { Session } from '../sessions/session.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Message } from '../wire/message.ts';
import type { Decided } from './exchange.ts';
import type { Resolution } from './resolution.ts';
import { type ToolBounds, toolOf } from './tool-bounds.ts';

export interface ConfirmCallParts {
  readonly resolution: Resolution;
  readonly tools: ToolBounds;
  readonly approvals: Approvals;
}

/** For a request that was admitted: what is asked when it goes out. See `Acting`. */
export type ConfirmCall = (decided: Decided, server: ServerDefinition, message: Message) => () => Session;

/**
 * A request may wait between the decision on it and the moment its server gets it: for a process, a handshake, a list.
 * Where anything that the decision rests on has changed meanwhile, it is decided anew.
 */
export function createConfirmCall({ resolution, tools, approvals }: ConfirmCallParts): ConfirmCall {
  return ({ session, decidedAt }, { name }, message) =>
    () => {
      if (resolution.revision() === decidedAt && resolution.isLatest(session)) return session;
      const { session: now, server } = resolution.current(session, name);
      assertApproved(approvals, server);
      if (message.method === 'tools/call') tools.admit(now, name, toolOf(message), message);
      return now;
    };
}
