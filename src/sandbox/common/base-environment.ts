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
  const environment: Record<string, string> = {};
  for (const name of inheritedVariables) {
    const value = host[name];
    if (value !== undefined && value !== '') environment[name] = value;
  }
  return { ...environment, ...configured, TMPDIR: tmpDir };
}
