import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import type { PolicyAdmin } from '../../context/for-models/governance.ts';
import { AmbitError } from '../../errors.ts';
import type { Keys } from '../../identity/keys.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import { compileToolPattern } from '../../rules/tool-pattern.ts';
import { sessionOf } from '../../sessions/session.ts';
import type { InboxPage } from '../../sessions/teams/messages.ts';
import type { Team } from '../../sessions/teams/open-team.ts';
import { findStatePlace } from '../../sessions/teams/workspace-state.ts';
import { directBound } from '../../sessions/trust-bounds.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { StateKey } from '../../stores/state.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import type { ServerAccess } from '../gateway.ts';
import { ownServer } from '../routing/own-server.ts';
import { describeOpener, listSourcedValues, type SourcedValue } from './describe-context.ts';
import { listPermissionUses, type PermissionUse } from './describe-permissions.ts';
import { describeServer } from './mcp-servers.ts';

/** The context of a session: each value with its source, and what follows from it. */
interface SessionContextView {
  readonly sessionId: string;
  readonly openedBy: string;
  readonly values: readonly SourcedValue[];
  readonly servers: readonly ServerAvailability[];
  readonly permissions: readonly PermissionUse[];
  readonly tools: readonly ToolRestriction[];
}

interface ServerAvailability {
  readonly name: string;
  readonly available: boolean;
  readonly rule?: string;
  readonly reason?: string;
  readonly problem?: string;
}

interface ToolRestriction {
  readonly server: string;
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  readonly rules: readonly string[];
}

interface StateKeysPage {
  readonly keys: readonly (Omit<StateKey, 'expiresAt'> & {
    readonly expiresAt: string | null;
    readonly scope: 'session' | 'workspace';
  })[];
  readonly next: string | null;
}

/** Shows an operator what is known about one session, and sends it messages. */
export interface SessionInspector {
  describeContext(record: SessionRecord, access: Pick<ServerAccess, 'explain'>): Promise<SessionContextView>;
  describePolicies(record: SessionRecord): ReturnType<typeof describePolicies>;
  listStateKeys(
    record: SessionRecord,
    page: { readonly after?: string; readonly limit: number },
  ): Promise<StateKeysPage>;
  listMessages(record: SessionRecord, after: string | undefined): Promise<InboxPage>;
  /** Puts a message of the operator into the inbox of a session, and returns its id. `by` is for the journal. */
  sendMessage(
    to: SessionRecord,
    message: { readonly text: string; readonly replyTo?: string },
    by: string,
  ): Promise<string>;
}

interface SessionInspectorParts {
  readonly config: () => Config;
  readonly store: Pick<SessionStore, 'get' | 'state'>;
  readonly keys: Pick<Keys, 'get'>;
  readonly folders: Pick<SessionFolders, 'hasOwnFolder' | 'path'>;
  readonly team: Pick<Team, 'messages' | 'workspaceState' | 'allowsToDirect'>;
  readonly policies: Pick<PolicyAdmin, 'previewFor'>;
  readonly journal: Pick<Journal, 'record'>;
  readonly hasSeveralUsers: () => Promise<boolean>;
}

export function createSessionInspector(parts: SessionInspectorParts): SessionInspector {
  const { config, store, keys, folders, team, policies, journal } = parts;

  async function readFacts(record: SessionRecord) {
    const { parentId, keyId } = record;
    const session = sessionOf(record);
    const [parent, key, direct] = await Promise.all([
      parentId === null ? undefined : store.get(parentId),
      keyId === null ? undefined : keys.get(keyId),
      directBound(config().sessions, parts.hasSeveralUsers),
    ]);
    const workspace = findWorkspace(config(), session.workspaceId);
    const hasOwnFolder = folders.hasOwnFolder(session);
    return { record, config: config(), parent, key, direct, workspace, hasOwnFolder, folder: folders.path(session) };
  }

  return {
    async describeContext(record, { explain }) {
      const facts = await readFacts(record);
      const servers = explain(sessionOf(record)).map((each) => {
        const { name, available, ...view } = describeServer(each);
        return 'env' in view
          ? { name, available, ...(view.problem === undefined ? {} : { problem: view.problem }) }
          : { name, available, ...view };
      });
      const available = servers.filter((server) => server.available).map(({ name }) => name);
      return {
        sessionId: record.id,
        openedBy: describeOpener(record),
        values: listSourcedValues(facts),
        servers,
        permissions: listPermissionUses(facts),
        tools: [...available, ownServer].flatMap((server) => findRestriction(config(), server) ?? []),
      };
    },

    describePolicies: (record) => describePolicies(policies, record),

    async listStateKeys(record, { after, limit }) {
      const [scope, key] = readStateCursor(after);
      const ofSession = scope === 'workspace' ? noKeys : await store.state.list(record.id, { limit, ...afterKey(key) });
      const keys = ofSession.keys.map((each) => viewKey('session', each));
      if (ofSession.next !== null) return { keys, next: `session:${ofSession.next}` };
      const place = findStatePlace(record, record.workspaceId ?? undefined, team.allowsToDirect);
      if (place === undefined) return { keys, next: null };
      const left = limit - keys.length;
      // The first page of the state of the workspace comes with the next request.
      if (left === 0) return { keys, next: 'workspace:' };
      const more = scope === 'workspace' ? afterKey(key) : {};
      const shared = await team.workspaceState.list(place, { limit: left, ...more });
      return {
        keys: [...keys, ...shared.keys.map((each) => viewKey('workspace', each))],
        next: shared.next === null ? null : `workspace:${shared.next}`,
      };
    },

    listMessages: (record, after) => team.messages.read(record, { after }),

    async sendMessage({ id: toSessionId }, { text, replyTo }, by) {
      const messageId = await team.messages.send({ from: null, to: { id: toSessionId }, text, replyTo });
      const bytes = Buffer.byteLength(text);
      journal.record({ kind: 'session', event: 'message-sent', by, toSessionId, messageId, bytes });
      return messageId;
    },
  };
}

async function describePolicies(admin: Pick<PolicyAdmin, 'previewFor'>, record: SessionRecord) {
  const { id, userId, workspaceId } = record;
  const found = await admin.previewFor({ id, userId, workspaceId: workspaceId ?? undefined });
  const { policies, objectives, block, carrier, deliveries } = found;
  return {
    sessionId: id,
    policies: policies.map(({ policy, outcome, by }) => ({ ...policy, outcome, by: by ?? null })),
    objectives,
    block,
    carrier,
    deliveries: deliveries.map(({ at, to, era, kind, isCurrent }) => ({
      at: new Date(at).toISOString(),
      to,
      era,
      kind,
      isCurrent,
    })),
  };
}

/** All of Ambit's own tools begin with this. */
const ownToolPrefix = 'session_';

/** Finds the lists and rules that restrict the tools of a server; undefined if there are none. */
function findRestriction({ servers, rules }: Config, server: string): ToolRestriction | undefined {
  const prefix = server === ownServer ? ownToolPrefix : `${server}__`;
  const { allow = ['*'], deny = [] } = (Object.hasOwn(servers, server) ? servers[server]?.tools : undefined) ?? {};
  const ids = rules
    .filter((rule) => [...(rule.allow ?? []), ...(rule.deny ?? [])].some((text) => mayName(text, prefix)))
    .map(({ id }) => id);
  if (allow.includes('*') && deny.length === 0 && ids.length === 0) return undefined;
  return { server, allow, deny, rules: ids };
}

function mayName(pattern: string, prefix: string): boolean {
  return compileToolPattern(pattern).mayFollow(prefix);
}

const noKeys = { keys: [], next: null };

function viewKey<Scope extends 'session' | 'workspace'>(scope: Scope, { key, version, bytes, expiresAt }: StateKey) {
  return { key, version, bytes, expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(), scope };
}

function afterKey(key: string): { readonly after?: string } {
  return key === '' ? {} : { after: key };
}

/** Reads where a page begins: the state of the session or of its workspace, and the last key of the page before. */
function readStateCursor(after: string | undefined): readonly [scope: string, key: string] {
  if (after === undefined) return ['session', ''];
  const [, scope, key] = /^(session|workspace):(.*)$/s.exec(after) ?? [];
  if (scope !== undefined && key !== undefined) return [scope, key];
  throw new AmbitError('REQUEST_INVALID', {
    what: '"after" is not a place in the list of keys.',
    hint: 'Pass "next" of the previous page unchanged.',
  });
}
