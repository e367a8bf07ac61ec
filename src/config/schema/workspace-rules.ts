import { refusedOverride } from '../../context/for-tools/foreign-env.ts';
import type { Problem } from '../explain/problem.ts';
import { closest } from '../explain/suggest.ts';
import type { ConfigDraft } from './schema.ts';

/** Variables that no workspace may set for a server: the context, and what decides what runs. */
export function overrideProblems(config: ConfigDraft): Problem[] {
  return Object.entries(config.workspaces).flatMap(([slug, { env }]) =>
    Object.entries(env).flatMap(([server, variables]) =>
      Object.entries(variables).flatMap(([variable, value]): Problem[] => {
        const message = refusedOverride(variable, value, config.context.envPrefixes);
        return message === undefined
          ? []
          : [{ path: ['workspaces', slug, 'env', server, variable], at: 'key', message }];
      }),
    ),
  );
}

/** Workspaces that roles name and nobody describes. A warning each: they give nobody more. */
export function unknownWorkspaces(config: ConfigDraft): Problem[] {
  const known = Object.keys(config.workspaces);
  return config.auth.jwt.flatMap(({ roles }, index) =>
    Object.entries(roles?.map ?? {}).flatMap(([role, { workspaces = [] }]) =>
      workspaces.flatMap((name, at): Problem[] => {
        if (known.includes(name)) return [];
        const meant = closest(name, known);
        const suggestion = meant === undefined ? '' : `; did you mean "${meant}"?`;
        const path = ['auth', 'jwt', index, 'roles', 'map', role, 'workspaces', at];
        return [{ path, at: 'value', message: `there is no workspace "${name}"${suggestion}` }];
      }),
    ),
  );
}

/**
 * Servers that workspaces name and nobody describes. A warning each: the included file that describes one may be
 * missing today, and a name too many gives nobody more.
 */
export function unknownServers(config: ConfigDraft): Problem[] {
  const known = Object.keys(config.servers);
  const told = (path: Problem['path'], at: Problem['at'], name: string): Problem[] => {
    if (Object.hasOwn(config.servers, name)) return [];
    const meant = closest(name, known);
    const suggestion = meant === undefined ? '' : `; did you mean "${meant}"?`;
    return [{ path, at, message: `there is no server "${name}"${suggestion}` }];
  };
  return Object.entries(config.workspaces).flatMap(([slug, { capabilities, env }]) => {
    const listed = typeof capabilities.servers === 'string' ? [] : capabilities.servers;
    return [
      ...listed.flatMap((name, index) => told(['workspaces', slug, 'capabilities', 'servers', index], 'value', name)),
      ...Object.keys(env).flatMap((name) => told(['workspaces', slug, 'env', name], 'key', name)),
    ];
  });
}
