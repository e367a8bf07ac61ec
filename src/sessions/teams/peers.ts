import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { bestMatches, isReference } from '../../stores/session-references.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Session } from '../session.ts';
import { findDescendants } from '../session-writer.ts';
import { listForMatch, matchSession } from '../tools/reach.ts';
import type { ToolCaller } from '../tools/tool.ts';
import { isWithinCeiling } from '../trust-bounds.ts';

/** The facts about a session that decide whether another one may find and message it. */
export type PeerFacts = Pick<
  SessionRecord,
  'id' | 'userId' | 'workspaceId' | 'parentId' | 'agentId' | 'trustLevel' | 'permissions'
>;

/** The session that looks for others, with everything that decides which ones it may find. */
export interface PeerView {
  readonly from: PeerFacts;
  /** The workspace that the session works in, if it is in one. */
  readonly workspaceId: string | undefined;
  /** Whether the session is sandboxed and must not reach direct ones. */
  readonly isConfined: boolean;
  /** The root of the tree of the session. */
  readonly rootId: string;
  /** Whether only sessions of the same tree are peers: without a workspace, and for anonymous users, who are not one person. */
  readonly isOnlyTree: boolean;
  /** Whether the tree is in another workspace than the one that the client has selected. */
  readonly isTreeElsewhere: boolean;
}

/**
 * The sessions that a session may find and message: those of the same user in the same workspace, and those of its tree.
 * A sandboxed session reaches direct ones only where the workspace allows it.
 */
export interface Peers {
  view(from: SessionRecord, caller: ToolCaller): Promise<PeerView>;
  /** Tells whether a session is a peer. `rootId` is the root of its tree, if it matters. */
  isPeer(view: PeerView, caller: ToolCaller, facts: PeerFacts, rootId: string | undefined): boolean;
  /** Finds a live peer by id, unique name or unique prefix of the id. */
  find(reference: string, view: PeerView, caller: ToolCaller): Promise<SessionRecord>;
}

/** Tells whether sandboxed sessions of a workspace may message direct ones. */
export type AllowsToDirect = (workspaceId: string | undefined) => boolean;

/** A tree is at most this deep. */
const maxDepth = 32;

export function createPeers(store: SessionStore, allowsToDirect: AllowsToDirect): Peers {
  async function findRoot(session: Pick<SessionRecord, 'id' | 'userId' | 'parentId'>): Promise<string> {
    let root = session.id;
    let { parentId } = session;
    for (let depth = 0; parentId !== null && depth < maxDepth; depth++) {
      const parent = await store.get(parentId);
      if (parent?.userId !== session.userId) break;
      root = parent.id;
      parentId = parent.parentId;
    }
    return root;
  }

  async function listTree(view: PeerView): Promise<SessionRecord[]> {
    const root = await store.get(view.rootId);
    return root === undefined ? [] : [root, ...(await findDescendants(store, root))];
  }

  async function searchPeers(reference: string, view: PeerView, caller: ToolCaller) {
    const needsTree = view.isOnlyTree || view.isTreeElsewhere;
    const isInTree = (each: SessionRecord) => isPeerOf(view, caller, each, view.rootId);
    const family = needsTree ? (await listTree(view)).filter(isInTree) : [];
    const ofFamily = bestMatches(family, reference);
    if (view.isOnlyTree) {
      return { found: ofFamily, listVisible: async () => ({ sessions: family, isComplete: true }) };
    }
    const isPeer = (each: SessionRecord) => isPeerOf(view, caller, each, undefined);
    const filter = { userId: view.from.userId, ...(view.workspaceId && { workspaceId: view.workspaceId }) };
    const found = (await store.find(reference, filter)).filter(isPeer);
    return { found: [...ofFamily, ...found], listVisible: () => listForMatch(store.list, filter, isPeer) };
  }

  return {
    async view(from, caller) {
      const workspaceId = effectiveWorkspace(from, caller.session);
      return {
        from,
        workspaceId,
        isConfined: from.trustLevel === 'sandboxed' && !allowsToDirect(workspaceId),
        rootId: await findRoot(from),
        isOnlyTree: workspaceId === undefined || from.userId === anonymousUser,
        isTreeElsewhere: workspaceId !== (from.workspaceId ?? undefined),
      };
    },
    isPeer: isPeerOf,
    async find(reference, view, caller) {
      if (!isReference(reference)) throw peerNotFoundError(view);
      const asked = reference === 'current' ? view.from.id : reference;
      const match = await matchSession(asked, { ...(await searchPeers(asked, view, caller)), isExact: true });
      if (match.record !== undefined) return match.record;
      const names = match.candidates.flatMap(({ name }) => (name === null ? [] : `"${name}"`)).join(', ');
      if (match.isAmbiguous) {
        throw new AmbitError('REQUEST_INVALID', {
          what: `Several sessions match that${names === '' ? '' : `: ${names}`}.`,
          hint: 'Pass the whole name or the full id, as shown by session_search.',
        });
      }
      await assertNotConfined(store, asked, view);
      throw peerNotFoundError(view, names);
    },
  };
}

/** The workspace of a session. The one that a client has selected holds for its call and is in no record. */
export function effectiveWorkspace(record: SessionRecord, current: Session): string | undefined {
  const here = record.id === current.id ? current.workspaceId : undefined;
  return here ?? record.workspaceId ?? undefined;
}

function isPeerOf(view: PeerView, { principal }: ToolCaller, facts: PeerFacts, rootId: string | undefined): boolean {
  if (facts.userId !== view.from.userId) return false;
  const isInWorkspace = !view.isOnlyTree && facts.workspaceId === view.workspaceId;
  const isInTree = rootId === view.rootId && facts.workspaceId === view.from.workspaceId;
  if (!isInWorkspace && !isInTree) return false;
  if (facts.id === view.from.id) return true;
  if (view.isConfined && facts.trustLevel === 'direct') return false;
  return principal.kind !== 'user' || isWithinCeiling(facts, principal.ceiling);
}

/** Tells a sandboxed session why it cannot message its own parent. It knows of that one, but of no other. */
async function assertNotConfined(store: SessionStore, asked: string, view: PeerView): Promise<void> {
  if (!view.isConfined || view.from.parentId === null) return;
  const parent = await store.get(view.from.parentId);
  const isMeant = parent?.id === asked || (parent?.name === asked && parent.userId === view.from.userId);
  if (parent?.trustLevel !== 'direct' || !isMeant) return;
  throw new AmbitError('TRUST_REQUIRED', {
    what: 'A sandboxed session cannot message a direct one in this workspace.',
    hint: 'Return a value to the parent with session_report, or ask the operator to set workspaces.*.messages.toDirect.',
    rule: 'workspaces.messages.toDirect',
  });
}

function peerNotFoundError({ isConfined }: PeerView, similar = ''): AmbitError {
  const limit = isConfined ? ' A sandboxed session cannot reach direct ones in this workspace.' : '';
  return new AmbitError('SESSION_NOT_FOUND', {
    what: `No session that you can message has that id or name${similar === '' ? '.' : `; did you mean ${similar}?`}`,
    hint: `You can message your sessions in the same workspace: find them with session_search.${limit}`,
  });
}
