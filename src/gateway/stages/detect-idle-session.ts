import type { Governance } from '../../context/for-models/governance.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Finds out how long a modern session has been idle, which decides whether the policy block is due again. */
export function detectIdleSession(governance: Governance): BeforeStage<InSession<Arrived>, void> {
  return {
    name: 'detectIdleSession',
    refuses: [],
    isNeeded: ({ era, isToolCall }) => era === 'modern' && isToolCall,
    before: ({ session }) => governance.arrived(session.id, session.createdAt),
  };
}
