import { resolve } from 'node:path';
import type { ConfigDraft } from '../schema/schema.ts';

/** A path as the configuration means it: `~/` is the home folder, the rest is relative to the file's folder. */
function resolvePath(path: string, folder: string, home: string): string {
  if (path === '~' || path.startsWith('~/')) return resolve(home, `.${path.slice(1)}`);
  return resolve(folder, path);
}

export function resolvePaths(config: ConfigDraft, folder: string, home: string): ConfigDraft {
  const absolute = (path: string): string => resolvePath(path, folder, home);
  const { tls, ...listen } = config.listen;
  const { webhook } = config.events;
  const servers = Object.entries(config.servers).map(([name, server]) => {
    if (server.transport === 'http') {
      const { oauth } = server;
      if (oauth?.clientSecretFile === undefined) return [name, server] as const;
      const clientSecretFile = absolute(oauth.clientSecretFile);
      return [name, { ...server, oauth: { ...oauth, clientSecretFile } }] as const;
    }
    const { sandbox } = server;
    const paths = { readable: sandbox.readable.map(absolute), writable: sandbox.writable.map(absolute) };
    return [name, { ...server, sandbox: { ...sandbox, ...paths } }] as const;
  });
  const workspaces = Object.entries(config.workspaces).map(
    ([slug, workspace]) =>
      [slug, workspace.path === undefined ? workspace : { ...workspace, path: absolute(workspace.path) }] as const,
  );
  const { keyFile } = config.credentials;
  return {
    ...config,
    credentials: keyFile === undefined ? {} : { keyFile: absolute(keyFile) },
    listen: tls === undefined ? listen : { ...listen, tls: { cert: absolute(tls.cert), key: absolute(tls.key) } },
    events:
      webhook?.secretFile === undefined
        ? config.events
        : { webhook: { ...webhook, secretFile: absolute(webhook.secretFile) } },
    include: config.include.map(absolute),
    servers: Object.fromEntries(servers),
    workspaces: Object.fromEntries(workspaces),
  };
}
