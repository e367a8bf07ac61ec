import type { KeyPath } from '../explain/show.ts';

/** Keys of a server whose values may hold secrets: tokens stand in arguments and addresses too. */
const serverSecrets = new Set<string | number>(['env', 'headers', 'args', 'url', 'command']);

/** True where a value must not be repeated in a message. */
export function isSecret(path: KeyPath): boolean {
  const [section, , key] = path;
  if (section === 'servers') return key !== undefined && serverSecrets.has(key);
  if (section === 'workspaces') return key === 'env';
  if (section === 'events') return key === 'url';
  if (section === 'telemetry') return path[1] === 'otlpUrl' || path[1] === 'headers';
  return section === 'store' && path[1] === 'redis';
}

/** Names of variables and headers are free text: one that looks like more than a name is left out of a path. */
export function withoutSecretKeys(path: KeyPath): KeyPath {
  const [section, second, key] = path;
  const named = section === 'servers' || section === 'workspaces' ? key : section === 'telemetry' ? second : undefined;
  if (named !== 'env' && named !== 'headers') return path;
  const first = path.indexOf(named) + 1;
  const odd = path.findIndex((segment, index) => index >= first && !/^[A-Za-z0-9_.-]{1,60}$/.test(String(segment)));
  return odd === -1 ? path : path.slice(0, odd);
}
