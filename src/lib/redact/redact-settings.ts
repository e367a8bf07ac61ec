import { findOriginalNames } from '../text/name-patterns.ts';
import { isSecretName, maxLineLength, redactedMark, redactLine } from './redact-line.ts';
import { redactStructured, redactXml } from './redact-structured.ts';

export { redactedMark } from './redact-line.ts';

type RedactText = (text: string) => string;

/** Folders of agents and editors. Their JSON, TOML and YAML files are settings. */
const settingsFolders: ReadonlySet<string> = new Set(
  ['agents', 'amazonq', 'claude', 'clinerules', 'codex', 'continue', 'cursor', 'gemini', 'junie', 'kilocode', 'kiro']
    .concat('opencode', 'qwen', 'roo', 'windsurf', 'vscode', 'idea', 'zed', 'devcontainer', 'mise')
    .concat('agent', 'amp', 'augment', 'cline', 'factory', 'fleet', 'openhands', 'theia', 'trae', 'vim')
    .map((name) => `.${name}`),
);

const fileNameRules: readonly (readonly [RegExp, RedactText])[] = [
  [/^\.npmrc$/, redactNpmrc],
  [/^\.yarnrc/, redactYarnrc],
  [/^\.git(?:config|modules)$/, redactGitConfig],
  [/^\.git-credentials$/, redactAll],
  [/^(?:\.mcp\.json|opencode\.jsonc?|\.?crush\.json|\.devcontainer\.json)$/, redactJson],
  [/^\.?mise(?:\.[^/]*)?\.toml$/, redactToml],
  [/^\.aider\.(?:conf|model\.settings)\.yml$/, redactYarnrc],
  [/^\.hgrc$/, redactIni],
  [/^bunfig\.toml$/, redactToml],
  [/^nuget\.config$/, redactXml],
  [/^\.(?:flaskenv|renviron|corepack\.env)$/, redactVariables],
];
const gitFolderRules: readonly (readonly [RegExp, RedactText])[] = [
  [/^config(?:\.worktree)?(?:\.lock)?$/, redactGitConfig],
];
const folderRules: Readonly<Record<string, readonly (readonly [RegExp, RedactText])[]>> = {
  '.git': [[/^credentials$/, redactAll]],
  '.cargo': [
    [/^config(?:\.toml)?$/, redactToml],
    [/^credentials(?:\.toml)?$/, redactAll],
  ],
  '.config': [[/^mise\.toml$/, redactToml]],
  '.bundle': [[/^config$/, redactBundle]],
  '.hg': [[/^hgrc/, redactIni]],
  '.sl': [[/^config$/, redactIni]],
  '.idea': [[/\.(?:xml|iml)$/, redactXml]],
  '.mvn': [[/\.xml$/, redactXml]],
};
const agentFileRules: readonly (readonly [RegExp, RedactText])[] = [
  [/\.jsonc?$/, redactJson],
  [/\.toml$/, redactToml],
  [/\.ya?ml$/, redactYarnrc],
];
const mayBeSettings = /^[._]|^(?:config|credentials|crush|opencode|mise|hgrc|nuget)|\.(?:jsonc?|toml|ya?ml|xml|iml)$/;

/**
 * Finds the function that redacts a settings file, by the names of its path; undefined if the file is shown as it is.
 * Settings files are worth reading for their other content; a file of credentials only is shown as empty. A copy is
 * redacted like its original.
 */
export function findRedaction(names: readonly string[]): RedactText | undefined {
  const last = (names.at(-1) ?? '').toLowerCase();
  const candidates = [last, ...findOriginalNames(last)].filter((name) => mayBeSettings.test(name));
  if (candidates.length === 0) return undefined;
  const above = names.slice(0, -1).map((name) => name.toLowerCase());
  const rules = [
    ...fileNameRules,
    ...(above.includes('.git') ? gitFolderRules : []),
    ...(folderRules[above.at(-1) ?? ''] ?? []),
    ...(above.includes('.idea') ? (folderRules['.idea'] ?? []) : []),
    ...(above.some((name) => settingsFolders.has(name)) ? agentFileRules : []),
  ];
  return rules.find(([name]) => candidates.some((each) => name.test(each)))?.[1];
}

/** Redacts bytes. Binary content is shown as empty. */
export function redactBytes(content: Uint8Array, redact: RedactText): Buffer {
  const text = Buffer.from(content).toString('latin1');
  return Buffer.from(text.includes('\0') ? '' : redact(text), 'latin1');
}

/** Keys of npm's settings, without the registry before them. */
const npmSecret = /(?:auth|authtoken|password|username|email|token|secret|key|keyfile|cert|certfile|otp)$/i;
const yarnSecret = /(?:auth|authtoken|authident|password|username|email|token|ident|secret|key|cert|filepath)$/i;
/** Keys of git's configuration that hold credentials, by the end of their last name. */
const gitSecret =
  /^(?:helper|username|smtpuser|key)$|(?:extraheader|password|passwd|passphrase|pass|token|secret|cookie|credentials?|(?:api|access|private|secret|auth)-?key)$/i;

function redactJson(text: string): string {
  return redactStructured(text, 'json');
}

function redactToml(text: string): string {
  return redactStructured(text, 'toml');
}

function redactAll(): string {
  return '';
}

/** Redacts comments too: a setting that is commented out still holds its secret. */
function redactNpmrc(text: string): string {
  return mapLines(text, (line) => {
    if (line.length > maxLineLength) return redactedMark;
    const start = line.slice(0, line.indexOf('=') + 1);
    const name = stripQuotes(start.slice(0, -1).trim())
      .replace(/\[\]$/, '')
      .replace(/^.*[:/]/, '');
    return npmSecret.test(name) ? `${start} ${redactedMark}` : redactLine(line);
  });
}

/** Redacts `.yarnrc`: `key value` lines, or YAML. A value may span several lines. */
function redactYarnrc(text: string): string {
  let above: number | undefined;
  return mapLines(text, (line) => {
    const depth = line.search(/\S/);
    if (above !== undefined && depth > above) return ' '.repeat(Math.min(depth, maxLineLength)) + redactedMark;
    if (depth < 0) return line;
    above = line.length > maxLineLength ? depth : undefined;
    if (above !== undefined) return redactedMark;
    const [indent = ''] = /^[\s#]*(?:- )?/.exec(line) ?? [];
    const [, key = '', sign = ''] =
      /^("[^"]*"|'[^']*'|[^\s"']+?)(\s*:(?=\s|$)|\s+)/.exec(line.slice(indent.length)) ?? [];
    const name = stripQuotes(key).replace(/^.*[:/]/, '');
    if (sign === '' || !yarnSecret.test(name)) return redactLine(redactInlineYaml(line));
    above = depth;
    return `${indent}${key}${sign.trimEnd()} ${redactedMark}`;
  });
}

/** Redacts YAML within one line: `{ npmAuthToken: x }`. */
function redactInlineYaml(line: string): string {
  const value = /((?:npmAuth(?:Token|Ident)|password|token)["']?\s*:\s*)("[^"]*"|'[^']*'|[^\s,}]+)/gi;
  return line.replace(value, `$1${redactedMark}`);
}

/** Redacts git configuration. A value, and so a secret, may go on in the next line after a backslash. */
function redactGitConfig(text: string): string {
  let goesOn = false;
  return mapLines(text, (line) => {
    const wasOn = goesOn;
    goesOn = /(?:^|[^\\])(?:\\\\)*\\$/.test(line);
    if (wasOn || line.length > maxLineLength) return redactedMark;
    const [, section = '', rest = ''] = /^(\s*\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])(.*)$/.exec(line) ?? ['', '', line];
    const [, key = '', sign = ''] = /^([\s;#]*[A-Za-z][\w-]*)(\s*=\s*)/.exec(rest) ?? [];
    const isSecret = goesOn || (sign !== '' && gitSecret.test(key.replace(/^[\s;#]+/, '')));
    return redactLine(section) + (isSecret ? key + sign + redactedMark : redactLine(rest));
  });
}

/** Redacts Mercurial's format: keys may contain dots, and a value goes on in lines that begin with a blank. */
function redactIni(text: string): string {
  let isSecret = false;
  return mapLines(text, (line) => {
    if (line.length > maxLineLength) return redactedMark;
    if (/^\s+\S/.test(line) && isSecret) return ` ${redactedMark}`;
    const [, key = '', sign = ''] = /^([\s;#%]*[^\s=:;#%[][^=:]*)([=:]\s*)/.exec(line) ?? [];
    isSecret = sign !== '' && gitSecret.test(key.trim().replace(/^.*\./s, ''));
    return isSecret ? key + sign + redactedMark : redactLine(line);
  });
}

function redactVariables(text: string): string {
  return mapLines(text, (line) => {
    if (line.length > maxLineLength) return redactedMark;
    const [start = '', name = ''] = /^[\s#]*(?:export\s+)?([\w.-]+)\s*=\s*/.exec(line) ?? [];
    return isSecretName(name) ? start + redactedMark : redactLine(line);
  });
}

/** Redacts Bundler's settings: a host name with underscores for dots is the key of its credentials. */
function redactBundle(text: string): string {
  return mapLines(text, (line) => {
    if (line.length > maxLineLength) return redactedMark;
    const [start = '', name = ''] = /^[\s#]*(BUNDLE_[^\s:]+):\s*/.exec(line) ?? [];
    const isHost = name.includes('__') && !/^BUNDLE_(?:BUILD|LOCAL|MIRROR)__/.test(name);
    return isHost || isSecretName(name) ? start + redactedMark : redactLine(line);
  });
}

function mapLines(text: string, change: (line: string) => string): string {
  return text.replace(/[^\r\n]+/g, change);
}

const stripQuotes = (text: string): string => text.replace(/^(["'])(.*)\1$/, '$2');
