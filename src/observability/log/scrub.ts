import { redacted, secretPatterns } from './secret-patterns.ts';

const longest = 8192;
const leastSecret = 8;

/** The text without what looks like a credential. Ids stay as they are: this is what the journal needs. */
export function scrub(text: string): string {
  // Nothing so short has the shape of a credential; most names are.
  if (text.length < leastSecret) return text;
  let clean = cut(text);
  for (const { shape, becomes } of secretPatterns) clean = clean.replace(shape, becomes);
  return clean;
}

/** Long texts are cut between words: half a secret would have no shape any more, and still be half a secret. */
function cut(text: string): string {
  if (text.length <= longest) return text;
  const head = text.slice(0, longest);
  const lastBreak = head.search(/[\s"',;][^\s"',;]*$/);
  return `${head.slice(0, Math.max(0, lastBreak))}…`;
}

/** The same, and without these very words, whatever they look like. */
export function scrubberFor(secrets: Iterable<string>): (text: string) => string {
  const known = [...new Set(secrets)]
    .filter((secret) => secret.length >= leastSecret)
    .sort((a, b) => b.length - a.length);
  if (known.length === 0) return scrub;
  return (text) => scrub(known.reduce((rest, secret) => rest.replaceAll(secret, redacted), text));
}

const secretNames = /pass|pwd|secret|token|key|auth|credential|cookie|dsn/i;

/** Of an environment or of headers, the values that their names call secret. */
export function secretValues(named: Readonly<Record<string, string>>): string[] {
  return Object.entries(named).flatMap(([name, value]) => (secretNames.test(name) ? [value] : []));
}

const longIds = /(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])/g;
const digests = /(?<![0-9A-Za-z])[0-9a-f]{40,128}(?![0-9A-Za-z])/gi;

/** For people: ids of sessions and exchanges by their first 8 characters, digests not at all. */
export function shortIds(text: string): string {
  if (text.length < 32) return text;
  return text.replace(longIds, (id) => `${id.slice(0, 8)}…`).replace(digests, '[digest]');
}
