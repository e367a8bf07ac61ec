/** Prefixes of context variables; the second one belongs to another orchestrator, and servers read it too. */
const contextPrefixes = ['AMBIT', 'PARACHUTE'];

/** Variables that make a program load or run something else than what its command line says. */
const programVariablePatterns = [
  // The loader, the C library and the resolver.
  'LD_.*|DYLD_.*|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|LOCPATH|NLSPATH|TERMCAP|TERMINFO.*',
  'HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_.*',
  // Locations of programs and settings.
  'PATH|HOME|XDG_.*|CDPATH|PREFIX',
  // Shells.
  'SHELL|SHELLOPTS|BASH.*|ENV|IFS|PS[0-4]|PROMPT_COMMAND|ZDOTDIR|FPATH|GLOBIGNORE|INPUTRC',
  // Programs that other programs start.
  '(?:.*_)?(?:PAGER|EDITOR|BROWSER|ASKPASS)|MANPAGER|VISUAL|LESS|LESS(?:OPEN|CLOSE|KEY).*|CC|CXX|MAKEFLAGS',
  // JavaScript, and where its packages come from.
  'NODE_(?!ENV$|DEBUG$|NO_WARNINGS$).*|NPM_(?!TOKEN$).*|PNPM_.*|YARN_.*|COREPACK_.*|BUN_.*|DENO_(?!DEPLOY_TOKEN$).*|ELECTRON_.*',
  // Python, and where its packages come from.
  'PYTHON.*|UV_.*|PIP_.*|PIPX_.*|VIRTUAL_ENV|CONDA_PREFIX',
  // Other languages.
  'PERL5.*|PERLLIB|RUBY.*|GEM_(?:HOME|PATH)|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_(?:PATH|CPATH|INIT).*|ERL_.*|JULIA_.*|R_(?:PROFILE|ENVIRON|LIBS).*',
  'CLASSPATH|JAVA_(?:HOME|OPTS|TOOL_OPTIONS)|.*_JAVA_OPTIONS|(?:MAVEN|GRADLE)_(?:OPTS|ARGS|HOME|USER_HOME)',
  'DOTNET_(?:STARTUP_HOOKS|ROOT.*|ADDITIONAL_DEPS|SHARED_STORE)|(?:CORECLR|COR|COMPLUS)_.*',
  'GO(?:FLAGS|PATH|ROOT|BIN|ENV|PROXY|SUMDB|NOSUMDB|INSECURE|TOOLCHAIN)|CARGO_.*|RUSTC.*|RUSTUP_.*',
  // Certificates that a program trusts, and plugins for that. A proxy alone cannot change encrypted traffic.
  'OPENSSL_.*|SSL_CERT_.*|SSLKEYLOGFILE|(?:CURL|REQUESTS|AWS)_CA_BUNDLE|CURL_HOME|WGETRC|DOCKER_CONFIG',
  // Git. The author may be set.
  'GIT_(?:SSH.*|EXEC_PATH|EXTERNAL_DIFF|PROXY_COMMAND|TEMPLATE_DIR|DIR|COMMON_DIR|CONFIG.*|WORK_TREE|INDEX_FILE)',
  'GIT_(?:OBJECT_DIRECTORY|ALTERNATE_.*|NAMESPACE|CEILING_.*|DISCOVERY_.*|ALLOW_PROTOCOL|SSL_.*|HTTP_.*|TRACE.*|ATTR_.*)',
];
const programVariables = new RegExp(`^(?:${programVariablePatterns.join('|')})$`, 'i');

/** Settings of tools that a server may start. An operator may choose them; a file that somebody else wrote may not. */
const toolVariablePatterns = [
  // Programs and libraries by their path.
  '.*_(?:HOOK|BINARY|EXECUTABLE|LIBRARY)_PATH|.*_(?:COMPILER|PRELOAD|STARTUP_HOOKS)',
  // Settings files that name programs to run.
  'AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE|(?:TF|TERRAFORM)_(?:.*_)?CONFIG(?:_FILE)?|TF_CLI_ARGS.*|TF_PLUGIN_.*|KUBECONFIG|BOTO_CONFIG',
  'CLOUDSDK_(?:PYTHON.*|CONFIG|ROOT_DIR)|ODBC(?:SYSINI|INI|INSTINI)|ANSIBLE_(?:CONFIG|HOME|.*_PLUGINS)|HELM_PLUGINS|PSQLRC|KRB5_CONFIG',
  // Tools that choose which version of a program runs.
  'MISE_.*(?:FILE|DIR|FILENAME|SHELL_ARGS)|ASDF_(?:DIR|DATA_DIR|CONFIG_FILE|DEFAULT_.*)|[A-Z]+ENV_(?:ROOT|DIR)|NVM_DIR|VOLTA_HOME|SDKMAN_DIR',
  'JAVACMD|TS_NODE_.*',
  // The container engine.
  '(?:DOCKER|CONTAINER)_(?:HOST|CONTEXT)',
];
const toolVariables = new RegExp(`^(?:${toolVariablePatterns.join('|')})$`, 'i');

const changesProgram = 'this variable can make the server run something other than its command';
export const reservedName = 'this variable describes the session of a server; only Ambit sets it';

/** Tells why a variable could make another program run, or break its environment; undefined when it could not. */
export function findDanger(name: string, value: string): string | undefined {
  if (programVariables.test(name)) return changesProgram;
  if (/[\0\n\r]/.test(value)) return 'its value contains a line break or a NUL character';
  return undefined;
}

/** Tells why a variable may not come from a file of somebody else; undefined when it may. */
export function whyVariableRefused(name: string, value: string, prefixes: readonly string[] = []): string | undefined {
  const upper = name.toUpperCase();
  if ([...contextPrefixes, ...prefixes].some((prefix) => upper.startsWith(`${prefix}_`))) return reservedName;
  if (toolVariables.test(name)) return changesProgram;
  return findDanger(name, value);
}
