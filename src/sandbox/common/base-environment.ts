import { realpathSync, writeFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { Confinement, Mount } from './confinement.ts';
import { createFilter, visibilityRulesOf } from './visibility-filter.ts';

interface CertificateAccess {
  readonly confinement: Confinement;
  /** The variables with the paths inside. */
  readonly env: Readonly<Record<string, string>>;
}

/** The folder of certificate files inside a sandbox. */
const insideFolder = '/run/certificates';

const inheritedVariables = ['PATH', 'HOME', 'LANG'] as const;
/** Variables that name files of certificate authorities. Servers of package runners get them too. */
export const certificateVariables = ['SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS', 'REQUESTS_CA_BUNDLE'] as const;

/**
 * The environment of an upstream before its session context is added: three host variables, those of `more`, a private
 * TMPDIR, and the configured variables. The reaper recognises our processes by TMPDIR, so the configuration cannot change it.
 */
export function baseEnvironment(
  host: NodeJS.ProcessEnv,
  tmpDir: string,
  configured: Readonly<Record<string, string>>,
  more: readonly string[] = [],
): Record<string, string> {
  return { ...pickVariables(host, [...inheritedVariables, ...more]), ...configured, TMPDIR: tmpDir };
}

/** Leaves out empty variables. */
export function pickVariables(host: NodeJS.ProcessEnv, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (host[name] ? [[name, host[name]]] : [])));
}

/**
 * Shows the user's files of certificate authorities in a sandbox, each under a fixed name. A file that is hidden, or that
 * a session could exchange, is left out.
 */
export function showCertificates(confinement: Confinement, host: NodeJS.ProcessEnv): CertificateAccess {
  const rules = visibilityRulesOf(confinement);
  const filter = createFilter(rules);
  const found = certificateVariables.flatMap((name): (readonly [string, Mount])[] => {
    const path = host[name] ?? '';
    const real = isAbsolute(path) ? filter.resolvePath(path)?.real : undefined;
    if (real === undefined || !filter.canShowFile(real)) return [];
    const isOpen = (rules.open ?? []).some((folder) => real.startsWith(`${folder}/`));
    return isOpen ? [] : [[name, { source: real, target: `${insideFolder}/${name.toLowerCase()}.pem` }]];
  });
  return {
    confinement: { ...confinement, readable: [...confinement.readable, ...found.map(([, mount]) => mount)] },
    env: Object.fromEntries(found.map(([name, { target }]) => [name, target])),
  };
}

/** The name of the key file in the private folder of its process. */
const contextKeyFile = 'context-key.json';

/** The path of the key file in a sandbox. `/run/ambit` is a read-only mount, so the file cannot be in it. */
const contextKeyPath = '/run/ambit-context-key.json';

interface ContextKeyOptions {
  /** The content of the file; undefined for a process without a key. */
  readonly jwk: string | undefined;
  /** The variables that name the file. */
  readonly names: readonly string[];
  /** The private folder of the process. Whatever removes it also removes the key. */
  readonly tmpDir: string;
  readonly keepsPaths: boolean;
}

/** Writes the key of a process to a file that only this process can read, and shows it in its sandbox, read-only. */
export function showContextKey<Granted extends Confinement | undefined>(
  confinement: Granted,
  { jwk, names, tmpDir, keepsPaths }: ContextKeyOptions,
): { readonly confinement: Granted; readonly env: Readonly<Record<string, string>> } {
  if (jwk === undefined) return { confinement, env: {} };
  const file = join(tmpDir, contextKeyFile);
  writeFileSync(file, jwk, { flag: 'wx', mode: 0o600 });
  const nameFile = (path: string) => Object.fromEntries(names.map((name) => [name, path]));
  if (confinement === undefined) return { confinement, env: nameFile(file) };
  const path = keepsPaths ? file : contextKeyPath;
  const mount: Mount = { source: realpathSync.native(file), target: path };
  return { confinement: { ...confinement, readable: [...confinement.readable, mount] }, env: nameFile(path) };
}
