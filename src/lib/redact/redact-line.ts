export const redactedMark = 'REDACTED-BY-AMBIT';
/** No setting is this long. A longer line is not searched but replaced as a whole. */
export const maxLineLength = 4096;
/** Tokens, by the prefixes of their issuers. */
const tokenPattern = /\b(?:gh[opsur]_|github_pat_|glpat-|npm_|pypi-|xox[abeprs]-|sk-|AKIA)[A-Za-z0-9_-]{10,}/g;
/** Names before a colon. The lookbehind starts each name once, so that long names take linear time. */
const headerNamePattern = /(?<![\w-])[\w-]+(?=\s*:)/g;
const queryPattern = /([?&])([\w-]+)=[^&\s"']+/g;
/** Settings in connection strings, and in XML, where an `&` ends in a semicolon. */
const connectionSettingPattern = /(; ?)([\w-]+)=[^;\s"']+/g;
const secretQueryName = /token|key|secret|password|auth|signature|sig|^(?:code|pass|pat|pwd)$/i;
/** User info in URLs. User names too, since a token is often given as one. */
const userInfoPattern = /:\/\/([^/?#\r\n]+)@/g;

/** Redacts credentials in one line, in linear time: the author of the settings must not block the gateway. */
export function redactLine(line: string): string {
  const withoutQuery = (whole: string, sign: string, name: string): string =>
    secretQueryName.test(name) ? `${sign}${name}=${redactedMark}` : whole;
  const plain = line
    .replace(userInfoPattern, (whole, user: string, at: number) =>
      /ssh$/i.test(line.slice(Math.max(0, at - 3), at)) && !user.includes(':') ? whole : `://${redactedMark}@`,
    )
    .replace(queryPattern, withoutQuery)
    .replace(connectionSettingPattern, withoutQuery);
  return redactHeader(plain).replace(tokenPattern, redactedMark);
}

/** Redacts a header, whose value goes on to the end of the line. */
function redactHeader(line: string): string {
  for (const { 0: name, index } of line.matchAll(headerNamePattern)) {
    if (isSecretHeader(name)) return `${line.slice(0, index + name.length)}: ${redactedMark}`;
  }
  return line;
}

function isSecretHeader(name: string): boolean {
  return /\b(?:authorization|private-token)$/i.test(name) || (/\bx-/i.test(name) && /(?:token|key|auth)$/i.test(name));
}

/** Names of settings, options and variables whose value is a credential, by their end. */
const secretName =
  /(?:token|secret|password|passwd|passphrase|pwd|api[-_]?key|access[-_]?key|private[-_]?key|secret[-_]?key|auth[-_]?key|authorization|bearer|credentials?|connection[-_]?string|(?:account|encryption|license|master|shared|signing|storage|webhook)[-_]?key)$|(?:^|[-_])(?:auth|dsn|pat)$|^-*key$/i;

/** Whether the value of a setting with this name is a credential. */
export function isSecretName(name: string): boolean {
  return secretName.test(name);
}
