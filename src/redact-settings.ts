import { redactStructured } from './redact-structured.ts';
import { longestLine, redactedMark, withoutSecrets } from './without-secrets.ts';

export { redactedMark } from './without-secrets.ts';

type Redact = (text: string) => string;

/** Folders of agents and editors: what they keep in JSON, TOML or YAML is settings. */
const foldersOfSettings: ReadonlySet<string> = new Set(
  ['agents', 'amazonq', 'claude', 'clinerules', 'codex', 'continue', 'cursor', 'gemini', 'junie', 'kilocode', 'kiro']
    .concat('opencode', 'qwen', 'roo', 'windsurf', 'vscode', 'idea', 'zed', 'devcontainer', 'mise')
    .map((name) => `.${name}`),
);

const byName: readonly (readonly [RegExp, Redact])[] = [
  [/^\.npmrc$/, redactNpmrc],
  [/^\.yarnrc/, redactYarnrc],
  [/^\.git(?:config|modules)$/, redactGitConfig],
  [/^\.git-credentials$/, showNothing],
  [/^(?:\.mcp\.json|opencode\.jsonc?|\.?crush\.json|\.devcontainer\.json)$/, redactJson],
  [/^\.?mise(?:\.[^/]*)?\.toml$/, redactToml],
  [/^\.aider\.conf\.yml$/, redactYarnrc],
];
const inGit: readonly (readonly [RegExp, Redact])[] = [[/^config(?:\.worktree)?(?:\.lock)?$/, redactGitConfig]];
const inFolder: Readonly<Record<string, readonly (readonly [RegExp, Redact])[]>> = {
  '.git': [[/^credentials$/, showNothing]],
  '.cargo': [
    [/^config(?:\.toml)?$/, redactToml],
    [/^credentials(?:\.toml)?$/, showNothing],
  ],
  '.config': [[/^mise\.toml$/, redactToml]],
};
const ofAgents: readonly (readonly [RegExp, Redact])[] = [
  [/\.jsonc?$/, redactJson],
  [/\.toml$/, redactToml],
  [/\.ya?ml$/, redactYarnrc],
];

/**
 * How a settings file that may hold credentials is shown, by the names that lead to it; undefined where it is shown as it
 * is. These files are worth reading for what else they say; one of nothing but credentials is shown as an empty one.
 */
export function redactionFor(names: readonly string[]): Redact | undefined {
  const last = (names.at(-1) ?? '').toLowerCase();
  if (!/^[._]|^(?:config|credentials|crush|opencode|mise)|\.(?:jsonc?|toml|ya?ml)$/.test(last)) return undefined;
  const above = names.slice(0, -1).map((name) => name.toLowerCase());
  const rules = [
    ...byName,
    ...(above.includes('.git') ? inGit : []),
    ...(inFolder[above.at(-1) ?? ''] ?? []),
    ...(above.some((name) => foldersOfSettings.has(name)) ? ofAgents : []),
  ];
  return rules.find(([name]) => name.test(last))?.[1];
}

/** The same for bytes. What is no text is shown as nothing. */
export function redactBytes(content: Uint8Array, redact: Redact): Buffer {
  const text = Buffer.from(content).toString('latin1');
  return Buffer.from(text.includes('\0') ? '' : redact(text), 'latin1');
}

/** Keys of npm's settings, without the registry that may stand before them. */
const npmSecret = /(?:auth|authtoken|password|username|email|token|secret|key|keyfile|cert|certfile|otp)$/i;
const yarnSecret = /(?:auth|authtoken|authident|password|username|email|token|ident|secret|key|cert|filepath)$/i;
/** Values in which git keeps what proves who somebody is, by how their last name ends. */
const gitSecret =
  /^(?:helper|username|smtpuser|key)$|(?:extraheader|password|passwd|passphrase|pass|token|secret|cookie|credentials?|(?:api|access|private|secret|auth)-?key)$/i;

function redactJson(text: string): string {
  return redactStructured(text, 'json');
}

function redactToml(text: string): string {
  return redactStructured(text, 'toml');
}

function showNothing(): string {
  return '';
}

/** Comments too: what is put aside for a while is a secret all the same. */
function redactNpmrc(text: string): string {
  return byLine(text, (line) => {
    if (line.length > longestLine) return redactedMark;
    const start = line.slice(0, line.indexOf('=') + 1);
    const name = unquoted(start.slice(0, -1).trim())
      .replace(/\[\]$/, '')
      .replace(/^.*[:/]/, '');
    return npmSecret.test(name) ? `${start} ${redactedMark}` : withoutSecrets(line);
  });
}

/** The old form has a blank between key and value, the new one is YAML. A value may go on for several lines. */
function redactYarnrc(text: string): string {
  let above: number | undefined;
  return byLine(text, (line) => {
    const depth = line.search(/\S/);
    if (above !== undefined && depth > above) return ' '.repeat(Math.min(depth, longestLine)) + redactedMark;
    if (depth < 0) return line;
    above = line.length > longestLine ? depth : undefined;
    if (above !== undefined) return redactedMark;
    const [indent = ''] = /^[\s#]*(?:- )?/.exec(line) ?? [];
    const [, key = '', sign = ''] =
      /^("[^"]*"|'[^']*'|[^\s"']+?)(\s*:(?=\s|$)|\s+)/.exec(line.slice(indent.length)) ?? [];
    const name = unquoted(key).replace(/^.*[:/]/, '');
    if (sign === '' || !yarnSecret.test(name)) return withoutSecrets(withoutInlineSecrets(line));
    above = depth;
    return `${indent}${key}${sign.trimEnd()} ${redactedMark}`;
  });
}

/** YAML within one line: `{ npmAuthToken: x }`. */
function withoutInlineSecrets(line: string): string {
  const value = /((?:npmAuth(?:Token|Ident)|password|token)["']?\s*:\s*)("[^"]*"|'[^']*'|[^\s,}]+)/gi;
  return line.replace(value, `$1${redactedMark}`);
}

/** A value that ends in a backslash goes on in the next line, and its secret may be anywhere in it. */
function redactGitConfig(text: string): string {
  let goesOn = false;
  return byLine(text, (line) => {
    const wasOn = goesOn;
    goesOn = /(?:^|[^\\])(?:\\\\)*\\$/.test(line);
    if (wasOn || line.length > longestLine) return redactedMark;
    const [, section = '', rest = ''] = /^(\s*\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])(.*)$/.exec(line) ?? ['', '', line];
    const [, key = '', sign = ''] = /^([\s;#]*[A-Za-z][\w-]*)(\s*=\s*)/.exec(rest) ?? [];
    const isSecret = goesOn || (sign !== '' && gitSecret.test(key.replace(/^[\s;#]+/, '')));
    return withoutSecrets(section) + (isSecret ? key + sign + redactedMark : withoutSecrets(rest));
  });
}

function byLine(text: string, change: (line: string) => string): string {
  return text.replace(/[^\r\n]+/g, change);
}

const unquoted = (text: string): string => text.replace(/^(["'])(.*)\1$/, '$2');
