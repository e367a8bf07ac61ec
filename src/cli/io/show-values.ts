import { existsSync } from 'node:fs';
import { isSecretName, redactedMark, withoutSecrets } from '../../lib/redact/redact-line.ts';
import { redacted, scrub } from '../../observability/log/scrub.ts';

const hidden = '…';
const longest = 500;

/** Names that say of a value that it is a credential, beyond those of settings. */
const secretEnd = /(?:key|pass|pat|auth|cookie|dsn|jwt|session|signature|salt|pin|otp)$/i;
/** Long, without a sign between words, and with digits: nobody chose it. */
const random = /^(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{20,}$/;

const address = /^[a-z][a-z0-9+.-]*:\/\//i;
const option = /^(?:--[a-z][a-z-]*(?:[\s=]|$)|-[a-zA-Z](?:[\s./=]|$))/;
const relativePath = /^(?:\.{1,2}|~|file:)\//i;

/**
 * The value of a variable as whoever approves a server sees it. A credential is shown as `…`. A path, an option or an
 * address is always shown, whatever its variable is called: it can decide what runs.
 */
export function shownValue(name: string, value: string): string {
  const plain = scrub(withoutSecrets(value)).replaceAll(redactedMark, hidden).replaceAll(redacted, hidden);
  if (decides(value)) return cut(plain);
  if (isSecretName(name) || secretEnd.test(name)) return hidden;
  // A path may look random. What does not exist cannot be told from a credential that begins with a slash.
  if (value.startsWith('/')) return cut(plain);
  return plain !== value || random.test(value) ? hidden : cut(plain);
}

function decides(value: string): boolean {
  return (
    address.test(value) || option.test(value) || relativePath.test(value) || (value.startsWith('/') && exists(value))
  );
}

function exists(path: string): boolean {
  return !path.includes('\0') && existsSync(path);
}

function cut(text: string): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}… (${text.length - longest} characters more)`;
}
