import type { Governance } from '../../context/for-models/governance.ts';
import type { Arrived, SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Measures how long a modern session was idle, which decides whether the policy block is due again. */
export function detectIdleSession(governance: Governance): BeforeStage<SessionExchange<Arrived>, void> {
  return {
    name: 'detectIdleSession',
    refuses: [],
    isNeeded: ({ era, isToolCall }) => era === 'modern' && isToolCall,
    before: ({ session }) => governance.arrived(session.id, session.createdAt),
  };
}
