/** Stands where a credential was. */
export const redactedMark = 'REDACTED-BY-AMBIT';

/** No setting is this long. A longer line is not searched: nothing of it is shown. */
const longestLine = 4096;

type Redact = (text: string) => string;

/**
 * How a settings file that may hold credentials is shown, by the names that lead to it; undefined where it is shown as it
 * is. These files are worth reading for what else they say.
 */
export function redactionFor(names: readonly string[]): Redact | undefined {
  const lower = names.map((name) => name.toLowerCase());
  const last = lower.at(-1) ?? '';
  if (last === '.npmrc') return redactNpmrc;
  if (last.startsWith('.yarnrc')) return redactYarnrc;
  if (last === '.gitconfig' || last === '.gitmodules') return redactGitConfig;
  const inGit = lower.slice(0, -1).includes('.git');
  return inGit && /^config(?:\.worktree)?(?:\.lock)?$/.test(last) ? redactGitConfig : undefined;
}

/** The same for bytes. What is no text is shown as nothing. */
export function redactBytes(content: Uint8Array, redact: Redact): Buffer {
  const text = Buffer.from(content).toString('latin1');
  return Buffer.from(text.includes('\0') ? '' : redact(text), 'latin1');
}

/** Keys of npm's settings, without the registry that may stand before them. */
const npmSecret = /(?:auth|authtoken|password|username|email|token|secret|key|keyfile|cert|certfile|otp)$/i;
const yarnSecret = /(?:auth|authtoken|authident|password|username|email|token|ident|secret|key|cert|filepath)$/i;
/** Values in which git keeps what proves who somebody is, by their last name. */
const gitSecret =
  /^(?:extraheader|helper|username|password|passwd|token|oauthtoken|apikey|secret|key|smtppass|smtpuser|pass)$/i;

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

/** Tokens by the form that their issuers give them. */
const tokens = /\b(?:gh[opsur]_|github_pat_|glpat-|npm_|pypi-|xox[abeprs]-|sk-|AKIA)[A-Za-z0-9_-]{10,}/g;
/** Names that a colon follows. The look behind starts each name once, so that long names cost no more than their length. */
const headerNames = /(?<![\w-])[\w-]+(?=\s*:)/g;
const queries = /([?&])([\w-]+)=[^&\s"']+/g;
const secretQuery = /token|key|secret|password|auth|signature|sig/i;
/** In addresses, what stands before the `@`: names too, for a token is often given as one. */
const userinfo = /:\/\/([^/?#\r\n]+)@/g;

/** Each step looks at a character a fixed number of times: whoever writes the settings must not hold up the gateway. */
function withoutSecrets(line: string): string {
  const plain = line
    .replace(userinfo, (whole, user: string, at: number) =>
      /ssh$/i.test(line.slice(Math.max(0, at - 3), at)) && !user.includes(':') ? whole : `://${redactedMark}@`,
    )
    .replace(queries, (whole, sign: string, name: string) =>
      secretQuery.test(name) ? `${sign}${name}=${redactedMark}` : whole,
    );
  return withoutHeader(plain).replace(tokens, redactedMark);
}

/** A header's value goes on to the end of the line. */
function withoutHeader(line: string): string {
  for (const { 0: name, index } of line.matchAll(headerNames)) {
    if (isSecretHeader(name)) return `${line.slice(0, index + name.length)}: ${redactedMark}`;
  }
  return line;
}

function isSecretHeader(name: string): boolean {
  return /\b(?:authorization|private-token)$/i.test(name) || (/\bx-/i.test(name) && /(?:token|key|auth)$/i.test(name));
}

function byLine(text: string, change: (line: string) => string): string {
  return text.replace(/[^\r\n]+/g, change);
}

const unquoted = (text: string): string => text.replace(/^(["'])(.*)\1$/, '$2');
