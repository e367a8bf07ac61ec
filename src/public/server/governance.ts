import { createGovernance, type Governance } from '../../context/for-models/governance.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import { isObject } from '../sdk/call.ts';
import type { GivenGovernance } from './options.ts';

/** Creates the policies and objectives of a server that runs without Ambit. */
export function createOwnGovernance(given: GivenGovernance, store: SessionStore): Governance {
  const { policies = [], objectives = [], teamsOf } = given;
  const settings = {
    carrier: 'first-result' as const,
    policies: policies.map(({ name, text, scope = 'org', mode = 'prepend', locked = false }) => {
      return { name, text, scope, mode, locked, enabled: true, order: 0 };
    }),
    objectives: objectives.map(({ text, scope = 'org' }) => ({ text, scope, enabled: true, order: 0 })),
  };
  return createGovernance({
    store,
    settings: () => settings,
    people: {
      teamsOf: async (userId) => (await teamsOf?.(userId)) ?? [],
      any: async () => false,
      collections: [],
    },
    issuer: '',
    log: { warn() {} },
  });
}

/**
 * Prepends the policy block to the result if the session has not had it yet. The block counts as delivered when the
 * result is returned: the SDK does not say whether the answer arrived.
 */
export async function prependBlock(governance: Governance, session: Session, result: unknown): Promise<unknown> {
  if (!isObject(result) || !Array.isArray(result['content'])) return result;
  const { id: sessionId, userId, workspaceId } = session;
  const due = await governance.take({ sessionId, userId, workspaceId, transportId: undefined });
  if (due === undefined) return result;
  due.delivery.delivered();
  return { ...result, content: [JSON.parse(due.block) as unknown, ...result['content']] };
}
