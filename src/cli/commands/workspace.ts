import { existsSync } from 'node:fs';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { AmbitError } from '../../errors.ts';
import { type Command, jsonFlag, requirePositional } from '../command.ts';
import { loadTargetConfiguration } from '../io/find-gateway.ts';
import { printData, renderPairs, renderTable } from '../io/output.ts';

export const workspaceList: Command = {
  help: 'List workspaces',
  flags: { json: jsonFlag },
  async run(invocation) {
    const { config } = await loadTargetConfiguration(invocation);
    const workspaces = Object.entries(config.workspaces).map(([name, { path, trust, backend }]) => ({
      name,
      path,
      trust,
      backend,
    }));
    printData(invocation, { workspaces }, () =>
      workspaces.length === 0
        ? 'No workspaces. Add them to the configuration, under "workspaces".'
        : renderTable(
            ['NAME', 'TRUST', 'PATH'],
            workspaces.map(({ name, trust, path, backend }) => [name, trust, path ?? `(${backend})`]),
            { keepWidth: ['NAME'], truncateStart: ['PATH'], states: ['TRUST'] },
          ),
    );
  },
};

export const workspaceShow: Command = {
  operands: 'NAME',
  help: 'Show a workspace',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const { config } = await loadTargetConfiguration(invocation);
    const workspace = config.workspaces[name];
    if (workspace === undefined) {
      throw new AmbitError('WORKSPACE_NOT_FOUND', {
        what: `There is no workspace "${name}"${suggestClosest(name, Object.keys(config.workspaces)) || '.'}`,
        hint: 'List them with "ambit workspace list".',
      });
    }
    const { path, trust, isolation, backend, capabilities } = workspace;
    const exists = path === undefined ? undefined : existsSync(path);
    const { servers } = capabilities;
    printData(invocation, { name, path, exists, trust, servers, isolation, backend }, () =>
      renderPairs([
        ['name', name],
        ...(path === undefined ? [] : [['path', exists ? path : `${path} (does not exist)`] as const]),
        ['trust', trust],
        ['servers', typeof servers === 'string' ? servers : servers.join(', ')],
        ['isolation', isolation],
        ['backend', backend],
      ]),
    );
  },
};
