import { createPageCursors } from '../../stores/page-cursors.ts';
import type { InProcessServer } from '../../upstreams/definition.ts';
import type { EmbeddingProvider } from '../../workspaces/codebase/embeddings.ts';
import { createOwnTools } from '../../workspaces/tools/create-own-tools.ts';
import { createWorkspaceFiles, type WorkspaceFiles } from '../../workspaces/workspace-files.ts';
import type { ServerAccess } from '../gateway.ts';
import { explainCall } from '../inspect/explain-call.ts';
import { type CreateListReply, createListPages } from '../routing/collect-lists.ts';
import { createOwnInbox, type OwnInbox } from '../routing/own-inbox.ts';
import {
  createOwnServer,
  createOwnToolList,
  type ExplainMissingWorkspace,
  type OwnToolList,
  ownServer as ownServerName,
} from '../routing/own-server.ts';
import { explainMissing } from '../stages/select-workspace.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { AccessParts } from './open-access.ts';
import type { GatewayParts } from './react-to-change.ts';

export interface OwnToolParts {
  readonly files: WorkspaceFiles;
  readonly ownTools: OwnToolList;
  readonly ownServer: InProcessServer;
  readonly inbox: OwnInbox;
  /** Tells what sessions may use, including these tools. */
  readonly access: ServerAccess;
  readonly createListReply: CreateListReply;
}

interface OwnToolOptions extends Pick<GatewayParts, 'storage' | 'sandbox' | 'sessions'> {
  readonly access: Pick<AccessParts, 'resolution' | 'tools'>;
  readonly embeddings?: EmbeddingProvider | undefined;
}

/** Opens Ambit's own tools and the files that they work on. */
export function openOwnTools(options: OwnToolOptions, closing: ClosingStack): OwnToolParts {
  const { settings, paths, store, journal, log } = options.storage;
  const { sessions, team, folders, governance, open } = options.sessions;
  const { runners, tmpRoot } = options.sandbox;
  const { resolution, tools } = options.access;
  const { config } = settings;
  const { dataDir } = paths;
  const { embeddings } = options;
  const files = createWorkspaceFiles({ config, store, journal, folders, runners, tmpRoot, dataDir, log, embeddings });
  closing.push(files.close);
  const sessionTools = createOwnTools({
    sessions,
    store,
    files,
    contextOf: governance.contextOf,
    teamwork: {
      team,
      async createChild(draft, { principal }) {
        const ceiling = principal.kind === 'user' ? principal.ceiling : undefined;
        const { record, token } = await open(draft, { ceiling, openedBy: 'session' });
        return config().sessions.children.token === 'agent' && principal.kind !== 'user'
          ? { record, token }
          : { record };
      },
      onMessageSent({ from, to, messageId, text, caller: { correlationId: id } }) {
        const bytes = Buffer.byteLength(text);
        journal.record({
          kind: 'session',
          event: 'message-sent',
          id,
          sessionId: from.id,
          toSessionId: to.id,
          messageId,
          bytes,
        });
      },
      onReported({ id: sessionId, parentId }, { correlationId: id }) {
        journal.record({ kind: 'session', event: 'reported', id, sessionId, parentId });
      },
    },
    onSessionResolution({ caller, asked, sessionId, code }) {
      const { correlationId: id, session } = caller;
      if (sessionId !== undefined) journal.record({ kind: 'session', event: 'resolved', id, sessionId, asked });
      else journal.record({ kind: 'session', event: 'not-resolved', id, sessionId: session.id, asked, code });
    },
  });
  const ownTools = createOwnToolList(sessionTools, tools);
  const access: ServerAccess = {
    explain: resolution.explain,
    narrowsTools: (server) => tools.policyFor(server) !== undefined,
    explainCall: (session, tool, args) => explainCall({ resolution, tools, ownTools }, session, tool, args),
    hasOwnTools: ownTools.hasAny,
  };
  const createListReply = createListPages(createPageCursors(store.documents));
  const explain: ExplainMissingWorkspace = (...about) => explainMissing(config(), ...about, true);
  const { messages } = team;
  const inbox = createOwnInbox({ messages, tools, server: ownServerName, watchStore: store.watch });
  closing.push(async () => inbox.close());
  const ownServer = createOwnServer(sessionTools, ownTools, createListReply, explain, inbox);
  return { files, ownTools, ownServer, inbox, access, createListReply };
}
