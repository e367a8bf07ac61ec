export const redactedText = '[secret]';

interface SecretPattern {
  readonly shape: RegExp;
  /** Replacement; `$1` is the part that stays: a name, a scheme. */
  readonly becomes: string;
}

/** A whole quoted value, or text up to where a value usually ends. */
const valueSource = String.raw`(?:\[secret\]|\\?"[^"\r\n]{0,8192}"?|'[^'\r\n]{0,8192}'?|[^\s"',;&}\])]{1,8192})`;
const secretNameSource =
  '(?:pass(?:word|wd|phrase)|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|account[-_ ]?key|private[-_ ]?key|signing[-_ ]?key|credentials?)';

/**
 * The shapes of credentials, most specific first. Every quantifier is bounded or runs over characters that its
 * neighbour cannot match, so none takes long.
 */
const secretPatterns: readonly SecretPattern[] = [
  {
    shape:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*(?:-----END[A-Z0-9 ]{0,60}-----)?/g,
    becomes: redactedText,
  },
  // Ambit's session tokens and keys, whole or cut short.
  { shape: /\bamb[a-z]_[A-Za-z0-9-]{1,64}_[0-9A-Za-z]{1,128}/g, becomes: redactedText },
  // JSON Web Tokens, signed or encrypted.
  { shape: /\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}/g, becomes: redactedText },
  // Headers that carry a credential: a whole quoted value, or the rest of the line.
  {
    shape:
      /\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key|x-auth-token|x-amz-security-token|txn-token|mcp-session-id)(\\?["']?\s{0,4}[:=]\s{0,4})(?:\\?"[^"\r\n]{0,8192}"?|'[^'\r\n]{0,8192}'?|[^\r\n]{1,8192})/gi,
    becomes: `$1$2${redactedText}`,
  },
  { shape: /\b(bearer|basic|negotiate|digest)\s{1,4}[A-Za-z0-9._~+/=-]{8,}/gi, becomes: `$1 ${redactedText}` },
  // A URL with a password.
  {
    shape: /\b([a-z][a-z0-9+.-]{1,30}:\/\/)[^\s/?#@"'<>]{0,512}:[^\s/?#@"'<>]{1,512}@/gi,
    becomes: `$1${redactedText}@`,
  },
  { shape: /\b(https:\/\/hooks\.slack\.com\/)[A-Za-z0-9_/-]{10,}/gi, becomes: `$1${redactedText}` },
  // Values with a secret name: `password=…`, `"api_key": "…"`, `AWS_SECRET_ACCESS_KEY: …`.
  {
    shape: new RegExp(
      String.raw`((?:\b|_)${secretNameSource}(?:[-_](?:id|value|text|access[-_]?key|key|base64))?\\?["']?\s{0,4}(?:=>|:=|[:=])\s{0,4})${valueSource}`,
      'gi',
    ),
    becomes: `$1${redactedText}`,
  },
  // Keys with the prefix of their issuer.
  {
    shape: /\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA|A3T[A-Z0-9])[A-Z0-9]{12,20}\b/g,
    becomes: redactedText,
  },
  {
    shape: /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|glsa_\w{20,})/g,
    becomes: redactedText,
  },
  { shape: /\bx(?:ox[a-z]|app|oxe\.xox[a-z])-[A-Za-z0-9.-]{10,}/g, becomes: redactedText },
  {
    shape: /\b(?:sk|pk|rk|gsk|xai|whsec|r8|hf|ntn|lin_api|lin_oauth|nvapi)[-_][A-Za-z0-9_-]{16,}/g,
    becomes: redactedText,
  },
  { shape: /\bAIza[0-9A-Za-z_-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}/g, becomes: redactedText },
  {
    shape:
      /\b(?:npm|pypi|dop_v1|doo_v1|dckr_pat|figd|shp(?:at|ca|pa|ss)|secret|ops|dp\.[a-z]{2,4})[-_.][A-Za-z0-9_-]{24,}/g,
    becomes: redactedText,
  },
  { shape: /\bSG\.[\w-]{10,}\.[\w-]{10,}|\bhv[sbr]\.[\w-]{20,}|\bdapi[0-9a-f]{32}\b/g, becomes: redactedText },
  { shape: /\bage-secret-key-1[a-z0-9]{20,}/gi, becomes: redactedText },
  // A line of base64 only: keys are printed in such lines.
  {
    shape: /^(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9+/]{48,}={0,2}$/gm,
    becomes: redactedText,
  },
  // A long run of letters of both cases and digits is hardly ever anything else.
  {
    shape:
      /(?<![A-Za-z0-9_+-])(?=[a-z0-9_+-]*[A-Z])(?=[A-Z0-9_+-]*[a-z])(?=[A-Za-z_+-]*[0-9])[A-Za-z0-9_+-]{40,}={0,2}/g,
    becomes: redactedText,
  },
];
const maxLength = 8192;
const minSecretLength = 8;

/** Removes everything that looks like a credential. Ids stay as they are, since the journal needs them. */
export function scrubSecrets(text: string): string {
  // No credential is so short; most names are.
  if (text.length < minSecretLength) return text;
  let clean = cutAtBreak(text);
  for (const { shape, becomes } of secretPatterns) clean = clean.replace(shape, becomes);
  return clean;
}

/** Cuts a long text between words: half a secret would no longer be recognised. */
function cutAtBreak(text: string): string {
  if (text.length <= maxLength) return text;
  const head = text.slice(0, maxLength);
  const lastBreak = head.search(/[\s"',;][^\s"',;]*$/);
  return `${head.slice(0, Math.max(0, lastBreak))}…`;
}

/** Creates a function that also removes these secrets, whatever they look like. */
export function createScrubber(secrets: Iterable<string>, minLength = minSecretLength): (text: string) => string {
  // A secret of several lines may be written line by line.
  const known = [...new Set([...secrets].flatMap((secret) => [secret, ...secret.split(/\r?\n/)]))]
    .filter((secret) => secret.length >= minLength)
    .sort((a, b) => b.length - a.length);
  if (known.length === 0) return scrubSecrets;
  return (text) => scrubSecrets(known.reduce((rest, secret) => rest.replaceAll(secret, redactedText), text));
}

const secretFieldName = /pass|pwd|secret|token|key|auth|credential|cookie|dsn/i;

/** Lists the values of an environment, or of headers, whose names call them secret. */
export function listSecretValues(named: Readonly<Record<string, string>>): string[] {
  return Object.entries(named).flatMap(([name, value]) => (secretFieldName.test(name) ? [value] : []));
}

/** Lists the values of arguments whose flags call them secret: `--api-key=…`, `--token …`. */
export function listSecretArguments(args: readonly string[]): string[] {
  return args.flatMap((arg, at) => {
    const [, flag = '', value] = /^--?([\w-]{1,64})(?:=(.*))?$/s.exec(arg) ?? [];
    if (!secretFieldName.test(flag)) return [];
    return [value ?? args[at + 1] ?? ''];
  });
}

const longIds = /(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])/g;
const digests = /(?<![0-9A-Za-z])[0-9a-f]{40,128}(?![0-9A-Za-z])/gi;

/** Shortens ids of sessions and exchanges to 8 characters and removes digests, for people. */
export function shortenIds(text: string): string {
  if (text.length < 32) return text;
  return text.replace(longIds, (id) => `${id.slice(0, 8)}…`).replace(digests, '[digest]');
}
