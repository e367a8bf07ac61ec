import type { Governance } from '../../context/for-models/governance.ts';
import type { Exchange, SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Measures how long a modern session was idle, which decides whether the policy block is due again. */
export function detectIdleSession(governance: Governance): BeforeStage<SessionExchange<Exchange>, void> {
  return {
    name: 'detectIdleSession',
    refuses: [],
    isNeeded: ({ era, isToolCall }) => era === 'modern' && isToolCall,
    before: ({ session }) => governance.touch(session.id, session.createdAt),
  };
}
