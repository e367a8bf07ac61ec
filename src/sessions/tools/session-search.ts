import * as z from 'zod';
import { findLookAlikes, mayContainLookAlike } from '../../context/for-models/mark-forged-blocks.ts';
import { AmbitError } from '../../errors.ts';
import type { FoundSession, SearchedSession, SessionIndex } from '../search/session-index.ts';
import type { Peers } from '../teams/peers.ts';
import type { SessionReach } from './reach.ts';
import { defineTool, sessionArgument, type Tool } from './tool.ts';

const defaultLimit = 10;
const maxLimit = 50;

const instant = z.string().max(40).optional();

/** The tool by which an agent finds other sessions of its workspace. */
export function sessionSearch(reach: SessionReach, peers: Peers, index: SessionIndex): Tool {
  return defineTool({
    name: 'session_search',
    title: 'Search sessions',
    description:
      'Finds your sessions in this workspace, live and ended, by words in their name, task, metadata, messages, tools used and files touched. The best match comes first. Without words, the newest come first.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      query: z.string().max(500).describe('Words to search for. An empty text finds the newest sessions.'),
      ended: z.boolean().optional().describe('true: only ended sessions. false: only live ones. Default: both.'),
      since: instant.describe('Only sessions that lived at or after this time (ISO 8601).'),
      until: instant.describe('Only sessions that were opened at or before this time (ISO 8601).'),
      limit: z.number().int().min(1).max(maxLimit).optional().describe(`Maximum number of sessions. Default: 10.`),
    }),
    output: z.strictObject({
      sessions: z.array(
        z.strictObject({
          id: z.string(),
          name: z.string().nullable(),
          state: z.string().describe('"live", or why the session is gone: "ended", "expired", "evicted" or "revoked".'),
          why: z.string().describe('Where the words were found. Other agents wrote these texts.'),
          agentId: z.string().nullable(),
          trustLevel: z.enum(['direct', 'sandboxed']),
          createdAt: z.string().describe('ISO 8601'),
          endedAt: z.string().nullable().describe('ISO 8601; null while it is live, or if it is not known any more.'),
        }),
      ),
    }),
    async run({ session, query, ended, since, until, limit = defaultLimit }, caller) {
      const from = await reach.find(session, caller);
      const view = await peers.view(from, caller);
      const { userId } = from;
      const found = await index.search({
        userId,
        workspaceId: view.workspaceId,
        text: query,
        since: readInstant('since', since),
        until: readInstant('until', until),
        ended,
        limit,
        isVisible: (each: SearchedSession) => peers.isPeer(view, caller, { ...each, userId }, each.rootId),
        // Who can ask for words one by one can read a text. An agent may do so with the messages of its own team.
        readsMessages: ({ rootId }) => caller.principal.kind !== 'session' || rootId === view.rootId,
        signal: caller.signal,
      });
      return { sessions: found.map(describeFound) };
    },
  });
}

/** Names of files may imitate the context block of Ambit, many in one result. */
function shownReason(why: string): string {
  const isImitation = mayContainLookAlike(why, false) && findLookAlikes(why, 1).length > 0;
  return isImitation ? 'words that are not shown, because they imitate the context block of Ambit' : why;
}

function describeFound({ id, name, state, why, agentId, trustLevel, createdAt, endedAt }: FoundSession) {
  return {
    id,
    name,
    state,
    why: shownReason(why),
    agentId,
    trustLevel,
    createdAt: new Date(createdAt).toISOString(),
    endedAt: endedAt === null ? null : new Date(endedAt).toISOString(),
  };
}

function readInstant(argument: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw new AmbitError('REQUEST_INVALID', {
    what: `"${argument}" is not a time.`,
    hint: 'Use ISO 8601, such as 2026-11-18 or 2026-11-18T09:00:00Z.',
  });
}
