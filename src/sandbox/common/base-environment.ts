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
