import type { Principal } from '../../../src/identity/principal.ts';
import type { Session } from '../../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../../src/sessions/sessions.ts';
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
  open(
    userId: string,
    draft?: { id?: string; name?: string; parentId?: string; workspaceId?: string },
  ): Promise<Session>;
  close(): Promise<void>;
}

export function createTestSessions(options: StoreOptions = {}, given?: SessionStore): TestSessions {
  const store = given ?? openMemoryStore(options);
  const sessions = createSessions({ store, bounds });
  return {
    store,
    sessions,
    tools: createOwnTools({ sessions, store }),
    open: async (userId, draft = {}) => (await sessions.create({ userId, trustLevel: 'sandboxed', ...draft })).session,
    async close() {
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
