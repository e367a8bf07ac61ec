const inheritedVariables = ['PATH', 'HOME', 'LANG'] as const;

/**
 * The environment of an upstream before its session context is added: three host variables, a private TMPDIR, and the
 * configured variables. The reaper recognises our processes by TMPDIR, so the configuration cannot change it.
 */
export function baseEnvironment(
  host: NodeJS.ProcessEnv,
  tmpDir: string,
  configured: Readonly<Record<string, string>>,
): Record<string, string> {
  return { ...pickVariables(host, inheritedVariables), ...configured, TMPDIR: tmpDir };
}

/** Leaves out empty variables. */
export function pickVariables(host: NodeJS.ProcessEnv, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (host[name] ? [[name, host[name]]] : [])));
}
