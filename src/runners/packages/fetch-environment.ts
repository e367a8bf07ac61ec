const passed = new Set(
  'PATH HOME LANG USER LOGNAME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR'.split(
    ' ',
  ),
);
const proxies = /^(?:https?|all|no)_proxy$/i;
const settings = /^(?:npm_config_|uv_|bun_config_)/i;
/** How Ambit itself was started, if npx did that, which is no setting. */
const ofTheCaller = /^npm_config_(?:local_prefix|global_prefix|prefix|package|call|yes|global|location|user_agent)$/i;

/** What a tool that fetches packages needs to do so as it does for the user: their settings, and the way out. */
export function fetchEnvironment(host: NodeJS.ProcessEnv, tmpDir: string): Record<string, string> {
  const found = Object.entries(host).filter(
    ([name, value]) =>
      value !== undefined &&
      (passed.has(name) || proxies.test(name) || (settings.test(name) && !ofTheCaller.test(name))),
  );
  return { ...(Object.fromEntries(found) as Record<string, string>), TMPDIR: tmpDir };
}
