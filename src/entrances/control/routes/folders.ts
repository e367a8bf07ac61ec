import { z } from 'zod';
import { AmbitError, errorTable } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { DetailedProblemError, defineRoute, type RouteRequest } from '../route.ts';
import { sessionNotFoundError } from './sessions.ts';

type Folders = Operator['folders'];
type FolderName = Parameters<Folders['diff']>[0];

const folderParameter =
  'Id of the session, a unique name, or a unique prefix of the id. For an ended session, its full id.';

const folderQuery = z.object({
  workspace: z.string().optional().describe('Workspace of the folder, if the session has several folders.'),
});

const diffQuery = folderQuery.extend({
  path: z.string().optional().describe('Only the changes of this file, or of the files in this folder.'),
});

const mergeRequest = z.strictObject({
  workspace: z.string().optional().describe('Workspace of the folder, if the session has several folders.'),
  dryRun: z.boolean().optional().describe('Report the outcome without changing anything.'),
  prefer: z
    .enum(['session', 'workspace'])
    .optional()
    .describe('Which version of a conflicting file to use, as a whole.'),
  changesHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'the `changesHash` of a diff: 64 hex digits')
    .optional()
    .describe(
      'The `changesHash` of the diff or dry run that was reviewed. If the session has changed files since, the merge is refused with FILE_CHANGED.',
    ),
});

/** The own folders of sessions. */
export const folderRoutes = {
  'GET /api/v1/sessions/{id}/diff': defineRoute({
    role: 'admin',
    summary: 'Shows the unmerged changes in the own folder of a session',
    parameter: folderParameter,
    query: diffQuery,
    returns: 'The changed files and a patch',
    answer: 'folderDiff',
    handle: async (gateway, { parameter, query }) =>
      gateway.folders.diff(await findFolder(gateway, parameter, query.workspace), query.path),
  }),
  'POST /api/v1/sessions/{id}/merge': defineRoute({
    role: 'admin',
    summary: 'Merges the changes of a session into its workspace. If any file conflicts, nothing is changed',
    parameter: folderParameter,
    body: mergeRequest,
    returns: 'The outcome for each file',
    answer: 'merge',
    refusals: {
      409: {
        returns: 'Files conflict, or the session has changed files since; nothing was changed',
        answer: 'mergeConflict',
      },
    },
    handle: mergeFolder,
  }),
  'DELETE /api/v1/sessions/{id}/folder': defineRoute({
    role: 'admin',
    summary: 'Deletes the folder of an ended session, including unmerged changes',
    parameter: folderParameter,
    query: folderQuery,
    returns: 'The deleted folder',
    answer: 'discardedFolder',
    handle: discardFolder,
  }),
};

async function mergeFolder(gateway: Operator, { parameter, body }: RouteRequest<{ body: typeof mergeRequest }>) {
  const { workspace, ...request } = body;
  const merge = await gateway.folders.merge(await findFolder(gateway, parameter, workspace), request);
  if (merge.fits || merge.dryRun) return merge;
  const { files } = merge;
  const inTheWay = files.filter(({ outcome }) => outcome === 'conflict');
  const lines = inTheWay.map(({ path, reason }) => `  ${JSON.stringify(path)}: ${reason}`);
  const what = [errorTable.WORKSPACE_CONFLICT.sentence, ...lines].join('\n');
  throw new DetailedProblemError('WORKSPACE_CONFLICT', what, { files });
}

async function discardFolder(gateway: Operator, { parameter, query }: RouteRequest<{ query: typeof folderQuery }>) {
  const which = await findFolder(gateway, parameter, query.workspace);
  // The servers of the session would work in a folder that no longer exists.
  if ((await gateway.sessions.find(which.sessionId)) !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The session is still using its folder.',
      hint: 'End the session first.',
    });
  }
  await gateway.folders.discard(which);
  return { ...which, discarded: true as const };
}

/**
 * Finds the folder of a live session, or one that was kept when its session ended. The reference must be exact: a number
 * alone could mean a live session instead of the ended one.
 */
async function findFolder(gateway: Operator, reference: string, workspace: string | undefined): Promise<FolderName> {
  const { sessions, folders } = gateway;
  const record = await sessions.find(reference);
  const session = record === undefined ? undefined : sessions.get(record.id);
  const own = session?.workspaceId;
  if (session !== undefined && own !== undefined && (workspace ?? own) === own) {
    await folders.folderFor(session);
    return { sessionId: session.id, workspaceId: own };
  }
  // Only a folder that is there: the name of another workspace is any text, and would become part of a path.
  const there = folders.find(record?.id ?? reference);
  const fitting = workspace === undefined ? there : there.filter((each) => each.workspaceId === workspace);
  const [only, ...others] = fitting;
  if (only === undefined) {
    if (record === undefined) throw sessionNotFoundError('No session with that id, name or prefix has a folder.');
    throw new AmbitError('WORKSPACE_REQUIRED', { what: 'The session has no folder of its own.' });
  }
  if (others.length === 0) return only;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The session has several folders: ${fitting.map((each) => each.workspaceId).join(', ')}.`,
    hint: 'Choose one with --workspace NAME.',
  });
}
