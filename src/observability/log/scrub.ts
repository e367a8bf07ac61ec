import { stripVTControlCharacters } from 'node:util';

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

/**
 * Removes everything that looks like a credential, and cuts a long text. Ids stay as they are, since the journal needs
 * them.
 */
export function scrubSecrets(text: string): string {
  return scrubWhole(cutAtBreak(text));
}

/** The same without cutting, for a text that somebody has to see whole. */
export function scrubWhole(whole: string): string {
  // No credential is so short; most names are.
  if (whole.length < minSecretLength) return whole;
  const plain = dropColours(whole);
  const clean = removePatterns(plain);
  // Where nothing was hidden, the journal keeps the text as it was.
  return plain === whole || clean !== plain ? clean : removePatterns(whole);
}

function removePatterns(text: string): string {
  return secretPatterns.reduce((rest, { shape, becomes }) => rest.replace(shape, becomes), text);
}

/** Cuts a long text between words: half a secret would no longer be recognised. */
function cutAtBreak(text: string): string {
  if (text.length <= maxLength) return text;
  const head = text.slice(0, maxLength);
  const lastBreak = head.search(/[\s"',;][^\s"',;]*$/);
  return `${head.slice(0, Math.max(0, lastBreak))}…`;
}

/** Colours as JSON and languages write them. */
const writtenColours = /\\(?:u001b|x1b|033|e)\[[\d;]{0,20}m/gi;

/** Drops colours: they would hide where a secret begins, or stand in the middle of one. */
function dropColours(text: string): string {
  const plain = /[\u001b\u009b]/.test(text) ? stripVTControlCharacters(text) : text;
  return plain.includes('\\') ? plain.replace(writtenColours, '') : plain;
}

/** Creates a function that also removes these secrets, whatever they look like, and their usual encodings. */
export function createScrubber(secrets: Iterable<string>, minLength = minSecretLength): (text: string) => string {
  // A secret of several lines may be written line by line.
  const plain = [...new Set([...secrets].flatMap((secret) => [secret, ...secret.split(/\r?\n/)]))];
  const known = plain
    .filter((secret) => secret.length >= minLength)
    .flatMap((secret) => [secret, ...encodeForText(secret)])
    .sort((a, b) => b.length - a.length);
  if (known.length === 0) return scrubSecrets;
  const encoded = plain.filter((secret) => secret.length >= minSecretLength).flatMap(encodeAsBase64);
  return (text) => {
    const shown = known.reduce((rest, secret) => rest.replaceAll(secret, redactedText), dropColours(text));
    return scrubSecrets(encoded.reduce(hideBase64, shown));
  };
}

/** Removes credentials from a JSON value, and everything under a name that calls it secret. */
export function scrubValue(value: unknown, name = ''): unknown {
  const isSecret = secretFieldName.test(name);
  if (Array.isArray(value)) return value.map((each) => scrubValue(each, name));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, scrubValue(each, isSecret ? name : key)]),
    );
  }
  if (isSecret && (typeof value === 'string' || typeof value === 'number')) return redactedText;
  return typeof value === 'string' ? createScrubber(listSecretParts(value))(value) : value;
}

/** The forms of a secret in URLs and JSON, and in hex, as far as they differ from it. */
function encodeForText(secret: string): string[] {
  const whole = secret.replace(/\p{Surrogate}/gu, '');
  const hex = whole.length >= minSecretLength ? [Buffer.from(secret).toString('hex')] : [];
  const forms = [encodeURIComponent(whole), encodeURI(whole), JSON.stringify(secret).slice(1, -1), ...hex];
  return [...new Set(forms)].filter((form) => form !== secret);
}

/** The part of a secret's base64 that is the same whatever stands before and after it, for each offset. */
function encodeAsBase64(secret: string): string[] {
  const cores = [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)]);
    const wholeGroups = Math.floor(bytes.length / 3) * 4;
    const from = [0, 2, 3][offset];
    return (['base64', 'base64url'] as const).map((kind) => bytes.toString(kind).slice(from, wholeGroups));
  });
  return [...new Set(cores)].filter((core) => core.length >= minSecretLength);
}

const base64Letter = /[A-Za-z0-9+/=_-]/;

/** Hides each word of base64 that has the core of a secret in it. */
function hideBase64(text: string, core: string): string {
  let clean = '';
  let from = 0;
  for (let at = text.indexOf(core); at !== -1; at = text.indexOf(core, from)) {
    let [start, end] = [at, at + core.length];
    while (start > from && base64Letter.test(text[start - 1] as string)) start--;
    while (end < text.length && base64Letter.test(text[end] as string)) end++;
    clean += text.slice(from, start) + redactedText;
    from = end;
  }
  return clean + text.slice(from);
}

const secretFieldName = /pass|pwd|secret|token|key|auth|credential|cookie|dsn/i;

/** Lists the values of an environment, or of headers, whose names call them secret, and secrets inside of others. */
export function listSecretValues(named: Readonly<Record<string, string>>): string[] {
  return Object.entries(named).flatMap(([name, value]) =>
    secretFieldName.test(name) ? [value, ...listSecretParts(value)] : listSecretParts(value),
  );
}

/** Lists the values of arguments whose flags call them secret: `--api-key=…`, `--token …`, and secrets in arguments. */
export function listSecretArguments(args: readonly string[]): string[] {
  return args.flatMap((arg, at) => {
    const [, flag = '', value] = /^--?([\w-]{1,64})(?:=(.*))?$/s.exec(arg) ?? [];
    const parts = [...listSecretParts(value ?? arg), ...listHeaderSecrets(value ?? arg, args[at - 1])];
    return secretFieldName.test(flag) ? [value ?? args[at + 1] ?? '', ...parts] : parts;
  });
}

/** The secrets in a header: `X-Api-Key: …`, or any header after `--header`. */
function listHeaderSecrets(text: string, flag = ''): string[] {
  const [, name = '', value = ''] = /^([\w-]{1,64}):\s*(\S.*)$/s.exec(text) ?? [];
  const isHeader = /^(?:-H|--headers?)$/.test(flag) || secretFieldName.test(name);
  return isHeader && !value.startsWith('//') ? [value, ...value.split(/\s+/)] : [];
}

/** The secrets inside a value: the password and secret parameters of a URL, and secret fields of JSON. */
function listSecretParts(value: string): string[] {
  if (value.length > maxLength) return [];
  if (/^\s*[{[]/.test(value)) return listJsonSecrets(value);
  if (!value.includes('://') || !URL.canParse(value)) return [];
  const { password, searchParams } = new URL(value);
  const parameters = [...searchParams].flatMap(([name, each]) => (secretFieldName.test(name) ? [each] : []));
  return [password, decodeIfPossible(password), ...parameters];
}

function decodeIfPossible(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function listJsonSecrets(text: string): string[] {
  const found: string[] = [];
  try {
    JSON.parse(text, (name, value: unknown) => {
      if (typeof value === 'string' && (secretFieldName.test(name) || value.includes('://')))
        found.push(...(secretFieldName.test(name) ? [value] : listSecretParts(value)));
      return value;
    });
  } catch {
    // It is no JSON.
  }
  return found;
}

const longIds = /(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])/g;
const digests = /(?<![0-9A-Za-z])[0-9a-f]{40,128}(?![0-9A-Za-z])/gi;

/** Shortens ids of sessions and exchanges to 8 characters and removes digests, for people. */
export function shortenIds(text: string): string {
  if (text.length < 32) return text;
  return text.replace(longIds, (id) => `${id.slice(0, 8)}…`).replace(digests, '[digest]');
}
