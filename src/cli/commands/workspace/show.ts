import { existsSync } from 'node:fs';
import { AmbitError } from '../../../errors.ts';
import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { facts, print } from '../../io/output.ts';
import { configOf, placesOf } from '../../io/places.ts';

export const workspaceShow: Command = {
  path: ['workspace', 'show'],
  operands: 'NAME',
  help: 'one workspace',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = onlyWord(invocation, 'the name of the workspace');
    const config = await configOf(placesOf(invocation));
    const workspace = config.workspaces[name];
    if (workspace === undefined) throw new AmbitError('WORKSPACE_NOT_FOUND', { hint: 'See "ambit workspace list".' });
    const { path, trust, isolation, backend, capabilities } = workspace;
    const exists = path === undefined ? undefined : existsSync(path);
    const { servers } = capabilities;
    print(invocation, { name, path, exists, trust, servers, isolation, backend }, () =>
      facts([
        ['name', name],
        ...(path === undefined ? [] : [['path', exists ? path : `${path} (not there)`] as const]),
        ['trust', trust],
        ['servers', typeof servers === 'string' ? servers : servers.join(', ')],
        ['isolation', isolation],
        ['backend', backend],
      ]),
    );
    return 0;
  },
};
