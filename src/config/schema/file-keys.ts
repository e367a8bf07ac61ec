import type { Config } from './schema.ts';

/**
 * The role of each key of the configuration that names a file or folder. A secret must be out of reach of every session. A
 * setting must not be rewritten by one. An included file belongs to a project, and is hidden where a session could read
 * it. A given file or folder is meant for sessions.
 */
export type FileRole = 'secret' | 'setting' | 'included' | 'given';

/** Every key that names a file or folder; `*` stands for any name or place in a list. A test compares this with the schema. */
export const fileKeys = {
  'listen.tls.cert': 'setting',
  'listen.tls.key': 'secret',
  'credentials.keyFile': 'secret',
  'events.webhook.secretFile': 'secret',
  'servers.*.oauth.clientSecretFile': 'secret',
  'include.*': 'included',
  'servers.*.sandbox.readable.*': 'given',
  'servers.*.sandbox.writable.*': 'given',
  'workspaces.*.path': 'given',
} as const satisfies Record<string, FileRole>;

/** A file that the configuration names. */
export interface NamedFile {
  /** The key that names it, as it is written. */
  readonly key: string;
  readonly path: string;
}

/** The files of one role that a configuration names, with resolved paths. */
export function filesNamedIn(config: Pick<Config, keyof Config>, role: FileRole): NamedFile[] {
  return Object.entries(fileKeys).flatMap(([key, found]) =>
    found === role ? valuesAt(config, key.split('.'), []) : [],
  );
}

function valuesAt(value: unknown, names: readonly string[], above: readonly string[]): NamedFile[] {
  const [name, ...rest] = names;
  if (name === undefined) return typeof value === 'string' ? [{ key: above.join('.'), path: value }] : [];
  if (typeof value !== 'object' || value === null) return [];
  const there = name === '*' ? Object.entries(value) : Object.entries(value).filter(([key]) => key === name);
  return there.flatMap(([key, inner]) => valuesAt(inner, rest, [...above, key]));
}
