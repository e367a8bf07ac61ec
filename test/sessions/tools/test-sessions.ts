import type { Principal } from '../../../src/identity/principal.ts';
import { boundDraft } from '../../../src/sessions/parent-bounds.ts';
import type { CheckedDraft, Session } from '../../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../../src/sessions/sessions.ts';
import { openTeam, type Team } from '../../../src/sessions/teams/open-team.ts';
import type { CreateChild } from '../../../src/sessions/tools/child-tools.ts';
import type { ToolCaller } from '../../../src/sessions/tools/tool.ts';
import type { ToolResult, Toolset } from '../../../src/sessions/tools/toolset.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionStore, StoreOptions } from '../../../src/stores/store.ts';
import { createOwnTools } from '../../../src/workspaces/tools/create-own-tools.ts';

const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 500, maxPerUser: 200 };

export interface TestSessions {
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly tools: Toolset;
  readonly team: Team;
  open(
    userId: string,
    draft?: Partial<
      Pick<CheckedDraft, 'id' | 'name' | 'parentId' | 'workspaceId' | 'trustLevel' | 'task' | 'permissions'>
    >,
  ): Promise<Session>;
  close(): Promise<void>;
}

export function createTestSessions(options: StoreOptions = {}, given?: SessionStore): TestSessions {
  const store = given ?? openMemoryStore(options);
  const sessions = createSessions({ store, bounds });
  const team = openTeam({ store, sessions, allowsToDirect: (workspaceId) => workspaceId === 'open' });
  const createChild: CreateChild = async (draft) => {
    const parent = (await sessions.load(draft.parentId)) as Session;
    const bounded = boundDraft(parent, draft, { ttlSeconds: bounds.ttlSeconds });
    const { userId, trustLevel } = parent;
    const { record } = await sessions.create({ userId, trustLevel, ...bounded });
    return { record };
  };
  return {
    store,
    sessions,
    team,
    tools: createOwnTools({ sessions, store, teamwork: { team, createChild } }),
    open: async (userId, draft = {}) => (await sessions.create({ userId, trustLevel: 'sandboxed', ...draft })).session,
    async close() {
      await team.close();
      await sessions.close();
      await store.close();
    },
  };
}

/** Whoever holds the session's token. */
export function asHolder(session: Session): ToolCaller {
  return { session, principal: { kind: 'session', sessionId: session.id, userId: session.userId } };
}

/** Whoever sits at the other end of the pipe, in a direct session; or nobody known. */
export function asLocal(session: Session, kind: 'local' | 'anonymous' = 'local'): ToolCaller {
  const principal: Principal = { kind, userId: session.userId };
  return { session: { ...session, trustLevel: 'direct' }, principal };
}

export function codeIn(result: ToolResult): string | undefined {
  return (result._meta?.['ambit/error'] as { code: string } | undefined)?.code;
}
