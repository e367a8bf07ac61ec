import { suggestClosest } from '../../config/explain/suggest.ts';
import { describeWorkspace, describeWorkspaces, type WorkspaceSettings } from '../../config/load/describe-config.ts';
import { listWorkspaces } from '../../config/load/workspace-folders.ts';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { AmbitError } from '../../errors.ts';
import { type Command, type Invocation, jsonFlag, requirePositional } from '../command.ts';
import { isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { loadTargetConfiguration } from '../io/find-gateway.ts';
import { printData, renderPairs, renderTable } from '../io/output.ts';

type ShownList = AnswerOf<'GET /api/v1/workspaces'>;
type ShownWorkspace = ShownList['workspaces'][number];

export const workspaceList: Command = {
  help: 'List workspaces',
  flags: { json: jsonFlag },
  async run(invocation) {
    const list = await readWorkspaces(invocation);
    printData(invocation, list, () => renderList(list));
  },
};

/** Asks the running gateway for the workspaces; without one, reads the configuration. */
async function readWorkspaces(invocation: Invocation): Promise<ShownList> {
  try {
    return await runningGatewayRequest(invocation, 'GET /api/v1/workspaces');
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const { config } = await loadTargetConfiguration(invocation);
  const { workspaces, ...others } = describeWorkspaces(config);
  return { workspaces: workspaces.map(withoutGateway), ...others };
}

/** The number of sessions is known to a running gateway only. */
const withoutGateway = (settings: WorkspaceSettings): ShownWorkspace => ({ ...settings, sessions: null, folders: [] });

function renderList({ workspaces, leftOut, incomplete }: ShownList): string {
  const shown =
    workspaces.length === 0
      ? leftOut.length === 0 && incomplete.length === 0
        ? 'No workspaces. Add them to the configuration, under "workspaces".'
        : 'No workspaces.'
      : renderTable(
          ['NAME', 'TRUST', 'PATH'],
          workspaces.map(({ name, trust, path, backend }) => [name, trust, path ?? `(${backend})`]),
          { keepWidth: ['NAME'], truncateStart: ['PATH'], states: ['TRUST'] },
        );
  const others =
    leftOut.length === 0
      ? []
      : [
          renderTable(
            ['LEFT OUT', 'OF', 'BECAUSE'],
            leftOut.map(({ folder, pattern, reason }) => [folder, pattern, reason]),
          ),
        ];
  const notes = incomplete.map(
    ({ pattern, reason }) => `The list of "${pattern}" is not complete: ${reason}. Other workspaces are found by name.`,
  );
  return [shown, ...others, ...notes].join('\n\n');
}

export const workspaceShow: Command = {
  operands: 'NAME',
  help: 'Show a workspace',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const workspace = await readWorkspace(invocation, name);
    const { path, exists, trust, servers, isolation, backend, pattern, sessions, folders } = workspace;
    printData(invocation, workspace, () =>
      renderPairs([
        ['name', name],
        ...(path === null ? [] : [['path', exists ? path : `${path} (does not exist)`] as const]),
        ...(pattern === null ? [] : [['pattern', pattern] as const]),
        ['trust', trust],
        ['servers', typeof servers === 'string' ? servers : servers.join(', ')],
        ['isolation', isolation],
        ['backend', backend],
        ...(sessions === null ? [] : [['sessions', String(sessions)] as const]),
        ...(folders.length === 0 ? [] : [['folders', String(folders.length)] as const]),
      ]),
    );
  },
};

async function readWorkspace(invocation: Invocation, name: string): Promise<ShownWorkspace> {
  try {
    return await runningGatewayRequest(invocation, 'GET /api/v1/workspaces/{id}', { id: name });
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const { config } = await loadTargetConfiguration(invocation);
  const found = describeWorkspace(config, name);
  if (found !== undefined) return withoutGateway(found);
  throw new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `There is no workspace "${name}"${suggestClosest(name, listWorkspaces(config).names) || '.'}`,
    hint: 'List them with "ambit workspace list".',
  });
}
