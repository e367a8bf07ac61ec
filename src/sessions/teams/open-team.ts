import type { SessionStore } from '../../stores/store.ts';
import { createSessionIndex, type SessionIndex } from '../search/session-index.ts';
import type { Sessions } from '../sessions.ts';
import { createMessages, defaultMessageSettings, type MessageSettings, type Messages } from './messages.ts';
import { type AllowsToDirect, createPeers, type Peers } from './peers.ts';
import { createReports, type Reports } from './reports.ts';
import { createChangeWaiter } from './wait-for-change.ts';
import { createWorkspaceState, type WorkspaceState } from './workspace-state.ts';

/** Everything by which sessions work together: messages, results, shared state, and the search for each other. */
export interface Team {
  readonly peers: Peers;
  readonly messages: Messages;
  readonly reports: Reports;
  readonly workspaceState: WorkspaceState;
  readonly allowsToDirect: AllowsToDirect;
  readonly index: SessionIndex;
  /** Notes for the search that a session has called a tool, or used a file. */
  noteTool(sessionId: string, name: string): void;
  noteFile(sessionId: string, path: string): void;
  /** Removes what is stored for a user beside the sessions. */
  forgetUser(userId: string): Promise<void>;
  /** Answers all calls that wait, with what there is. */
  stopWaiting(): void;
  close(): Promise<void>;
}

export interface TeamOptions {
  readonly store: SessionStore;
  readonly sessions: Pick<Sessions, 'get' | 'onOpened' | 'onEnded'>;
  readonly messageSettings?: () => MessageSettings;
  readonly allowsToDirect?: AllowsToDirect;
}

export function openTeam(options: TeamOptions): Team {
  const { store, sessions, messageSettings = () => defaultMessageSettings, allowsToDirect = () => false } = options;
  const waiter = createChangeWaiter(store);
  const index = createSessionIndex({ store });
  const workspaceState = createWorkspaceState(store.documents);
  sessions.onOpened(index.opened);
  sessions.onEnded((session, reason) => {
    if (reason === 'unloaded') return;
    index.ended(session, reason);
  });
  return {
    peers: createPeers(store, allowsToDirect),
    messages: createMessages(store, waiter, messageSettings),
    reports: createReports(store, waiter),
    workspaceState,
    allowsToDirect,
    index,
    noteTool(sessionId, name) {
      const session = sessions.get(sessionId);
      if (session !== undefined) index.noteTool(session, name);
    },
    noteFile(sessionId, path) {
      const session = sessions.get(sessionId);
      if (session !== undefined) index.noteFile(session, path);
    },
    async forgetUser(userId) {
      await index.forgetUser(userId);
      await workspaceState.forgetUser(userId);
    },
    stopWaiting: waiter.close,
    async close() {
      waiter.close();
      await index.close();
    },
  };
}
