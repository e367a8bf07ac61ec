import { isContextName } from './context-names.ts';

/** Names under which a process finds its context; the second is another orchestrator's, which servers read too. */
const contextPrefixes = ['AMBIT', 'PARACHUTE'];

/** Variables that make a program load or run something else than what its command line says. */
const decidesWhatRuns =
  /^(?:LD_.*|DYLD_.*|NODE_OPTIONS|NODE_PATH|PYTHON.*|PATH|HOME|XDG_CONFIG_HOME|BASH_ENV|BASH_FUNC_.*|BASHOPTS|SHELLOPTS|PS4|ENV|IFS|PERL5.*|PERLLIB|RUBY.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|DOTNET_STARTUP_HOOKS|GCONV_PATH|NPM_CONFIG_.*)$/i;

const gitExecutes =
  /^GIT_(?:SSH|SSH_COMMAND|EXEC_PATH|EDITOR|SEQUENCE_EDITOR|PAGER|ASKPASS|EXTERNAL_DIFF|PROXY_COMMAND|TEMPLATE_DIR|DIR|COMMON_DIR|CONFIG.*)$/i;

const ours = 'this name tells a server about its session; only Ambit sets it';

function dangerous(name: string, value: string): string | undefined {
  if (decidesWhatRuns.test(name) || gitExecutes.test(name)) {
    return 'this variable can make the server run something else than its command';
  }
  if (/[\0\n\r]/.test(value)) return 'its value holds a line end or a NUL character';
  return undefined;
}

/** Why a variable may not come from a file that somebody else wrote; undefined when it may. */
export function refusedVariable(name: string, value: string, prefixes: readonly string[] = []): string | undefined {
  const upper = name.toUpperCase();
  if ([...contextPrefixes, ...prefixes].some((prefix) => upper.startsWith(`${prefix}_`))) return ours;
  return dangerous(name, value);
}

/** Why a workspace may not set a variable for a server; undefined when it may. */
export function refusedOverride(name: string, value: string, prefixes: readonly string[]): string | undefined {
  return isContextName(name, prefixes) ? ours : dangerous(name, value);
}
