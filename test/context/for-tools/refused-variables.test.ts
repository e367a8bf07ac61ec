import { describe, expect, test } from 'vitest';
import { whyVariableRefused } from '../../../src/context/for-tools/refused-variables.ts';
import { whyOverrideRefused } from '../../../src/context/for-tools/session-context.ts';

/** Each of them makes some program load or run something else than its command line says. */
const dangerous = [
  ...['LD_PRELOAD', 'LD_LIBRARY_PATH', 'LD_AUDIT', 'DYLD_INSERT_LIBRARIES', 'GCONV_PATH', 'PATH', 'HOME'],
  ...['XDG_CONFIG_HOME', 'BASH_ENV', 'BASH_FUNC_ls%%', 'BASHOPTS', 'SHELLOPTS', 'PS4', 'ENV', 'IFS'],
  ...['NODE_OPTIONS', 'NODE_PATH', 'NPM_CONFIG_REGISTRY', 'npm_config_script_shell'],
  ...['PYTHONPATH', 'PYTHONSTARTUP', 'PERL5LIB', 'PERL5OPT', 'PERLLIB', 'RUBYOPT', 'RUBYLIB'],
  ...['JAVA_TOOL_OPTIONS', '_JAVA_OPTIONS', 'JDK_JAVA_OPTIONS', 'DOTNET_STARTUP_HOOKS'],
  ...['GIT_SSH', 'GIT_SSH_COMMAND', 'GIT_EXEC_PATH', 'GIT_EDITOR', 'GIT_SEQUENCE_EDITOR', 'GIT_PAGER'],
  ...['GIT_ASKPASS', 'GIT_EXTERNAL_DIFF', 'GIT_PROXY_COMMAND', 'GIT_TEMPLATE_DIR', 'GIT_DIR', 'GIT_COMMON_DIR'],
  ...['GIT_CONFIG_GLOBAL', 'GIT_CONFIG_COUNT', 'GIT_WORK_TREE', 'GIT_SSL_NO_VERIFY', 'GIT_TRACE'],
  ...['PREFIX', 'UV_DEFAULT_INDEX', 'BUN_CONFIG_REGISTRY', 'PIP_INDEX_URL', 'NPM_EXECPATH', 'YARN_RC_FILENAME'],
  ...['NODE_EXTRA_CA_CERTS', 'NODE_TLS_REJECT_UNAUTHORIZED', 'NODE_COMPILE_CACHE', 'NODE_REPL_EXTERNAL_MODULE'],
  ...['OPENSSL_CONF', 'OPENSSL_MODULES', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE', 'SSLKEYLOGFILE'],
  ...[
    'LESSOPEN',
    'PAGER',
    'GH_PAGER',
    'EDITOR',
    'VISUAL',
    'BROWSER',
    'SSH_ASKPASS',
    'SHELL',
    'ZDOTDIR',
    'PROMPT_COMMAND',
  ],
  ...[
    'LOCPATH',
    'NLSPATH',
    'HOSTALIASES',
    'RES_OPTIONS',
    'GLIBC_TUNABLES',
    'XDG_DATA_DIRS',
    'VIRTUAL_ENV',
    'CLASSPATH',
  ],
  ...['GOFLAGS', 'RUSTC_WRAPPER', 'BUNDLE_GEMFILE', 'LUA_INIT', 'PHPRC', 'COR_PROFILER_PATH', 'DOCKER_CONFIG'],
];
const harmless = [
  ...[
    'HTTPS_PROXY',
    'NO_PROXY',
    'NPM_TOKEN',
    'GIT_TOKEN',
    'GIT_BASE_DIR',
    'GITHUB_TOKEN',
    'GOOGLE_API_KEY',
    'UVICORN_PORT',
  ],
  ...['TOKEN', 'XPATH', 'PATHS', 'HOMEPAGE', 'ENVIRONMENT', 'LDAP_URL', 'GIT_AUTHOR_NAME', 'NODE_ENV'],
];
/** An operator may say these of a workspace; a file of somebody else may not. */
const operatorsOnly = [
  ...['PYENV_HOOK_PATH', 'RBENV_HOOK_PATH', 'PYENV_ROOT', 'NAPI_RS_NATIVE_LIBRARY_PATH', 'ESBUILD_BINARY_PATH'],
  ...['PUPPETEER_EXECUTABLE_PATH', 'TS_NODE_COMPILER', 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE'],
  ...['TF_CLI_CONFIG_FILE', 'MISE_CONFIG_FILE', 'MISE_GLOBAL_CONFIG_FILE', 'KUBECONFIG', 'CLOUDSDK_PYTHON'],
  ...['DOCKER_HOST', 'JAVACMD', 'ODBCSYSINI', 'ASDF_DATA_DIR'],
];
const ordinary = [
  ...[
    'AWS_PROFILE',
    'AWS_REGION',
    'AWS_SECRET_ACCESS_KEY',
    'MEMORY_FILE_PATH',
    'DATA_PATH',
    'CONFIG_FILE',
    'LOG_LEVEL',
  ],
  ...['DATABASE_URL', 'OBSIDIAN_VAULT_PATH', 'ALLOWED_PATHS', 'LIBRARY_PATHS', 'GITHUB_HOST', 'CLOUDSDK_CORE_PROJECT'],
];
const whoRefuses = [
  ['a file of somebody else', (name: string, value: string) => whyVariableRefused(name, value)],
  ['a workspace', (name: string, value: string) => whyOverrideRefused(name, value, ['AMBIT'])],
] as const;

describe.each(whoRefuses)('%s', (_who, refused) => {
  test.each(dangerous)('S4: may not set %s, in either case of letters', (name) => {
    for (const spelled of [name, name.toLowerCase()]) expect(refused(spelled, 'x')).toMatch(/run something other/);
  });

  test.each(harmless)('may set %s', (name) => {
    expect(refused(name, 'x')).toBeUndefined();
  });

  test.each(['a\nb', 'a\rb', 'a\0b'])('may not set the value %j', (value) => {
    expect(refused('TOKEN', value)).toMatch(/line break or a NUL/);
  });
});

test.each(operatorsOnly)('S3: a file of somebody else may not set %s; a workspace may', (name) => {
  for (const spelled of [name, name.toLowerCase()])
    expect(whyVariableRefused(spelled, 'x')).toMatch(/run something other/);
  expect(whyOverrideRefused(name, 'x', ['AMBIT'])).toBeUndefined();
});

test.each(ordinary)('a file of somebody else may set %s', (name) => {
  expect(whyVariableRefused(name, 'x')).toBeUndefined();
});

test('P8: names that tell a server about its session are set by Ambit alone', () => {
  for (const name of ['AMBIT_USER_ID', 'ambit_anything', 'PARACHUTE_USER_ID', 'ORBIT_USER_ID']) {
    expect(whyVariableRefused(name, 'x', ['ORBIT'])).toMatch(/only Ambit sets it/);
  }
  expect(whyVariableRefused('ORBIT_USER_ID', 'x')).toBeUndefined();
});
