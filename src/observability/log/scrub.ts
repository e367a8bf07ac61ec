/** What takes a secret's place. */
export const redacted = '[secret]';

interface SecretPattern {
  readonly shape: RegExp;
  /** `$1` is what stays: a name, a scheme. */
  readonly becomes: string;
}

/** A quoted value whole, else up to where a value usually ends. */
const valueSource = String.raw`(?:\[secret\]|\\?"[^"\r\n]{0,8192}"?|'[^'\r\n]{0,8192}'?|[^\s"',;&}\])]{1,8192})`;

const secretNameSource =
  '(?:pass(?:word|wd|phrase)|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|account[-_ ]?key|private[-_ ]?key|signing[-_ ]?key|credentials?)';

/**
 * The shapes that credentials have, most telling first. Every quantifier is bounded or runs over characters that its
 * neighbour cannot match, so none of them can be made to take long.
 */
const secretPatterns: readonly SecretPattern[] = [
  {
    shape:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*(?:-----END[A-Z0-9 ]{0,60}-----)?/g,
    becomes: redacted,
  },
  // Our own: session tokens and keys, whole or cut short.
  { shape: /\bamb[a-z]_[A-Za-z0-9-]{1,64}_[0-9A-Za-z]{1,128}/g, becomes: redacted },
  // JSON Web Tokens; what is signed and what is encrypted alike.
  { shape: /\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}/g, becomes: redacted },
  // Headers that carry a credential: a quoted value whole, any other to the end of its line.
  {
    shape:
      /\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key|x-auth-token|x-amz-security-token|txn-token|mcp-session-id)(\\?["']?\s{0,4}[:=]\s{0,4})(?:\\?"[^"\r\n]{0,8192}"?|'[^'\r\n]{0,8192}'?|[^\r\n]{1,8192})/gi,
    becomes: `$1$2${redacted}`,
  },
  { shape: /\b(bearer|basic|negotiate|digest)\s{1,4}[A-Za-z0-9._~+/=-]{8,}/gi, becomes: `$1 ${redacted}` },
  // An address with a password in it.
  { shape: /\b([a-z][a-z0-9+.-]{1,30}:\/\/)[^\s/?#@"'<>]{0,512}:[^\s/?#@"'<>]{1,512}@/gi, becomes: `$1${redacted}@` },
  { shape: /\b(https:\/\/hooks\.slack\.com\/)[A-Za-z0-9_/-]{10,}/gi, becomes: `$1${redacted}` },
  // Whatever is called a secret: `password=…`, `"api_key": "…"`, `AWS_SECRET_ACCESS_KEY: …`.
  {
    shape: new RegExp(
      String.raw`((?:\b|_)${secretNameSource}(?:[-_](?:id|value|text|access[-_]?key|key|base64))?\\?["']?\s{0,4}(?:=>|:=|[:=])\s{0,4})${valueSource}`,
      'gi',
    ),
    becomes: `$1${redacted}`,
  },
  // Makers of keys that mark them as theirs.
  { shape: /\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA|A3T[A-Z0-9])[A-Z0-9]{12,20}\b/g, becomes: redacted },
  { shape: /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|glsa_\w{20,})/g, becomes: redacted },
  { shape: /\bx(?:ox[a-z]|app|oxe\.xox[a-z])-[A-Za-z0-9.-]{10,}/g, becomes: redacted },
  { shape: /\b(?:sk|pk|rk|gsk|xai|whsec|r8|hf|ntn|lin_api|lin_oauth|nvapi)[-_][A-Za-z0-9_-]{16,}/g, becomes: redacted },
  { shape: /\bAIza[0-9A-Za-z_-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}/g, becomes: redacted },
  {
    shape:
      /\b(?:npm|pypi|dop_v1|doo_v1|dckr_pat|figd|shp(?:at|ca|pa|ss)|secret|ops|dp\.[a-z]{2,4})[-_.][A-Za-z0-9_-]{24,}/g,
    becomes: redacted,
  },
  { shape: /\bSG\.[\w-]{10,}\.[\w-]{10,}|\bhv[sbr]\.[\w-]{20,}|\bdapi[0-9a-f]{32}\b/g, becomes: redacted },
  { shape: /\bage-secret-key-1[a-z0-9]{20,}/gi, becomes: redacted },
  // A line of nothing but base64: keys are printed in such lines, one by one.
  {
    shape: /^(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9+/]{48,}={0,2}$/gm,
    becomes: redacted,
  },
  // A long run of letters of both cases and digits is hardly ever anything else.
  {
    shape:
      /(?<![A-Za-z0-9_+-])(?=[a-z0-9_+-]*[A-Z])(?=[A-Z0-9_+-]*[a-z])(?=[A-Za-z_+-]*[0-9])[A-Za-z0-9_+-]{40,}={0,2}/g,
    becomes: redacted,
  },
];
const maxLength = 8192;
const minSecretLength = 8;

/** The text without what looks like a credential. Ids stay as they are: this is what the journal needs. */
export function scrub(text: string): string {
  // Nothing so short has the shape of a credential; most names are.
  if (text.length < minSecretLength) return text;
  let clean = cutAtBreak(text);
  for (const { shape, becomes } of secretPatterns) clean = clean.replace(shape, becomes);
  return clean;
}

/** Long texts are cut between words: half a secret would have no shape any more, and still be half a secret. */
function cutAtBreak(text: string): string {
  if (text.length <= maxLength) return text;
  const head = text.slice(0, maxLength);
  const lastBreak = head.search(/[\s"',;][^\s"',;]*$/);
  return `${head.slice(0, Math.max(0, lastBreak))}…`;
}

/** The same, and without these very words, whatever they look like. */
export function scrubberFor(secrets: Iterable<string>): (text: string) => string {
  const known = [...new Set(secrets)]
    .filter((secret) => secret.length >= minSecretLength)
    .sort((a, b) => b.length - a.length);
  if (known.length === 0) return scrub;
  return (text) => scrub(known.reduce((rest, secret) => rest.replaceAll(secret, redacted), text));
}

const secretFieldName = /pass|pwd|secret|token|key|auth|credential|cookie|dsn/i;

/** Of an environment or of headers, the values that their names call secret. */
export function secretValues(named: Readonly<Record<string, string>>): string[] {
  return Object.entries(named).flatMap(([name, value]) => (secretFieldName.test(name) ? [value] : []));
}

const longIds = /(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])/g;
const digests = /(?<![0-9A-Za-z])[0-9a-f]{40,128}(?![0-9A-Za-z])/gi;

/** For people: ids of sessions and exchanges by their first 8 characters, digests not at all. */
export function shortenIds(text: string): string {
  if (text.length < 32) return text;
  return text.replace(longIds, (id) => `${id.slice(0, 8)}…`).replace(digests, '[digest]');
}
