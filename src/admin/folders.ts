import { z } from 'zod';
import { AmbitError, errorTable } from '../errors.ts';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { notFound, readBody } from './sessions.ts';

export const mergeShape = z.strictObject({
  workspace: z.string().optional(),
  dryRun: z.boolean().optional(),
  prefer: z.enum(['session', 'workspace']).optional(),
});

type Folders = Operator['folders'];
type FolderName = Parameters<Folders['diff']>[0];

export async function diffFolder(gateway: Operator, { parameter, query }: Asked): Promise<AdminAnswer> {
  const which = await namedFolder(gateway, parameter, query.get('workspace') ?? undefined);
  return { status: 200, body: await gateway.folders.diff(which) };
}

export async function mergeFolder(gateway: Operator, { parameter, body }: Asked): Promise<AdminAnswer> {
  const { workspace, ...request } = readBody(mergeShape, body);
  const merge = await gateway.folders.merge(await namedFolder(gateway, parameter, workspace), request);
  if (merge.fits || merge.dryRun) return { status: 200, body: merge };
  const { http: status, sentence, hint } = errorTable.WORKSPACE_CONFLICT;
  const inTheWay = merge.files.filter(({ outcome }) => outcome === 'conflict');
  const lines = inTheWay.map(({ path, reason }) => `  ${JSON.stringify(path)}: ${reason}`);
  const detail = [sentence, ...lines].join('\n');
  const code = 'WORKSPACE_CONFLICT';
  return {
    status,
    problem: true,
    body: { type: 'about:blank', title: code, status, code, detail, hint, files: merge.files },
  };
}

export async function discardFolder(gateway: Operator, { parameter, query }: Asked): Promise<AdminAnswer> {
  const which = await namedFolder(gateway, parameter, query.get('workspace') ?? undefined);
  // Its servers would go on in a folder that is not there.
  if ((await gateway.sessions.find(which.sessionId)) !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The session still works in its folder.',
      hint: 'End the session first.',
    });
  }
  await gateway.folders.discard(which);
  return { status: 200, body: { ...which, discarded: true } };
}

/** The folder of a live session, or one that was kept when its session ended. */
async function namedFolder(gateway: Operator, reference: string, workspace: string | undefined): Promise<FolderName> {
  const { sessions, folders } = gateway;
  const record = await sessions.find(reference);
  const session = record === undefined ? undefined : sessions.get(record.id);
  const workspaceId = workspace ?? session?.workspaceId;
  if (session !== undefined && workspaceId !== undefined) {
    if (workspaceId === session.workspaceId) await folders.folderFor(session);
    return { sessionId: session.id, workspaceId };
  }
  const there = folders.find(record?.id ?? reference);
  const fitting = workspace === undefined ? there : there.filter((each) => each.workspaceId === workspace);
  const [only, ...others] = fitting;
  if (only === undefined) {
    if (record === undefined) throw notFound('No session, live or ended, has a folder by that id, name or prefix.');
    throw new AmbitError('WORKSPACE_REQUIRED', { what: 'The session has no folder of its own.' });
  }
  if (others.length === 0) return only;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The session has several folders: ${fitting.map((each) => each.workspaceId).join(', ')}.`,
    hint: 'Say which with --workspace W.',
  });
}
