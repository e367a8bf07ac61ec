import { existsSync } from 'node:fs';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { type ConfiguredWorkspace, findWorkspace, listWorkspaces } from '../../config/load/workspace-folders.ts';
import { AmbitError } from '../../errors.ts';
import { type Command, jsonFlag, requirePositional } from '../command.ts';
import { loadTargetConfiguration } from '../io/find-gateway.ts';
import { printData, renderPairs, renderTable } from '../io/output.ts';

interface ShownList {
  readonly workspaces: readonly Pick<ConfiguredWorkspace & { name: string }, 'name' | 'path' | 'trust' | 'backend'>[];
  /** Folders of patterns that are no workspaces. */
  readonly leftOut: readonly { readonly pattern: string; readonly folder: string; readonly reason: string }[];
  /** Patterns whose folder was not read, or only in part. */
  readonly incomplete: readonly { readonly pattern: string; readonly reason: string }[];
}

export const workspaceList: Command = {
  help: 'List workspaces',
  flags: { json: jsonFlag },
  async run(invocation) {
    const { config } = await loadTargetConfiguration(invocation);
    const { names, leftOut, incomplete } = listWorkspaces(config);
    const workspaces = names.flatMap((name) => {
      const found = findWorkspace(config, name);
      if (found === undefined) return [];
      const { path, trust, backend, pattern } = found;
      return [{ name, path, trust, backend, ...(pattern === undefined ? {} : { pattern }) }];
    });
    const list = { workspaces, leftOut, incomplete };
    printData(invocation, list, () => renderList(list));
  },
};

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
    const { config } = await loadTargetConfiguration(invocation);
    const workspace = findWorkspace(config, name);
    if (workspace === undefined) {
      throw new AmbitError('WORKSPACE_NOT_FOUND', {
        what: `There is no workspace "${name}"${suggestClosest(name, listWorkspaces(config).names) || '.'}`,
        hint: 'List them with "ambit workspace list".',
      });
    }
    const { path, trust, isolation, backend, capabilities, pattern } = workspace;
    const exists = path === undefined ? undefined : existsSync(path);
    const { servers } = capabilities;
    const made = pattern === undefined ? {} : { pattern };
    printData(invocation, { name, path, exists, trust, servers, isolation, backend, ...made }, () =>
      renderPairs([
        ['name', name],
        ...(path === undefined ? [] : [['path', exists ? path : `${path} (does not exist)`] as const]),
        ...(pattern === undefined ? [] : [['pattern', pattern] as const]),
        ['trust', trust],
        ['servers', typeof servers === 'string' ? servers : servers.join(', ')],
        ['isolation', isolation],
        ['backend', backend],
      ]),
    );
  },
};
