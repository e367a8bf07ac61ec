import { suggestClosest } from '../../../config/explain/suggest.ts';
import { describeRules, describeWorkspace, describeWorkspaces } from '../../../config/load/describe-config.ts';
import { listWorkspaces } from '../../../config/load/workspace-folders.ts';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { defineRoute } from '../route.ts';

/** The workspaces and rules of the configuration. */
export const configurationRoutes = {
  'GET /api/v1/workspaces': defineRoute({
    role: 'viewer',
    summary: 'Lists the workspaces with their sessions and folders',
    returns: 'The workspaces, sorted by name',
    answer: 'workspaces',
    async handle(gateway) {
      const { workspaces, ...others } = describeWorkspaces(gateway.config);
      const countOf = await countSessionsByWorkspace(gateway);
      const foldersOf = groupFolders(gateway);
      return {
        workspaces: workspaces.map((each) => ({
          ...each,
          sessions: countOf(each.name),
          folders: foldersOf(each.name),
        })),
        ...others,
      };
    },
  }),
  'GET /api/v1/workspaces/{id}': defineRoute({
    role: 'viewer',
    summary: 'Shows a workspace',
    parameter: 'Name of the workspace.',
    returns: 'The workspace',
    answer: 'workspace',
    async handle(gateway, { parameter: name }) {
      const found = describeWorkspace(gateway.config, name);
      if (found === undefined) throw workspaceNotFoundError(gateway, name);
      const countOf = await countSessionsByWorkspace(gateway, name);
      return { ...found, sessions: countOf(name), folders: groupFolders(gateway)(name) };
    },
  }),
  'GET /api/v1/rules': defineRoute({
    role: 'viewer',
    summary: 'Lists the rules for tools, and the restrictions of each server',
    description: '`POST /api/v1/sessions/{id}/explain` tells what they mean for one call.',
    returns: 'The rules, in the order of the configuration',
    answer: 'rules',
    handle: ({ config }) => describeRules(config),
  }),
};

function workspaceNotFoundError({ config }: Operator, name: string): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `There is no workspace "${name.slice(0, 64)}"${suggestClosest(name, listWorkspaces(config).names) || '.'}`,
    hint: 'List them with "ambit workspace list".',
  });
}

/** Counts the live sessions of each workspace, or of one. Returns null for each if the store cannot be reached. */
async function countSessionsByWorkspace(
  { sessions }: Operator,
  only?: string,
): Promise<(name: string) => number | null> {
  const counts = new Map<string, number>();
  const filter = only === undefined ? {} : { workspaceId: only };
  try {
    for (let after: string | null | undefined; after !== null; ) {
      const page = await sessions.list(filter, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const { workspaceId } of page.sessions) {
        if (workspaceId !== null) counts.set(workspaceId, (counts.get(workspaceId) ?? 0) + 1);
      }
      after = page.next;
    }
  } catch (error) {
    if (isAmbitError(error) && error.code === 'STORE_UNAVAILABLE') return () => null;
    throw error;
  }
  return (name) => counts.get(name) ?? 0;
}

const maxFolders = 1000;

function groupFolders({ folders }: Operator) {
  const all = folders.list();
  return (name: string) =>
    all
      .filter(({ workspaceId }) => workspaceId === name)
      .slice(0, maxFolders)
      .map(({ sessionId, kind, kept }) => ({ sessionId, kind, kept }));
}
