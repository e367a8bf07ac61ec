import { type Command, jsonFlag } from '../../command.ts';
import { print, table } from '../../io/output.ts';
import { configOf, placesOf } from '../../io/places.ts';

export const workspaceList: Command = {
  path: ['workspace', 'list'],
  help: 'the workspaces of the configuration',
  flags: { json: jsonFlag },
  async run(invocation) {
    const config = await configOf(placesOf(invocation));
    const workspaces = Object.entries(config.workspaces).map(([name, { path, trust, backend }]) => ({
      name,
      path,
      trust,
      backend,
    }));
    print(invocation, { workspaces }, () =>
      workspaces.length === 0
        ? 'No workspaces. Write them into the configuration, under "workspaces".'
        : table(
            ['NAME', 'TRUST', 'PATH'],
            workspaces.map(({ name, trust, path, backend }) => [name, trust, path ?? `(${backend})`]),
            { precious: ['NAME'], byEnd: ['PATH'] },
          ),
    );
    return 0;
  },
};
