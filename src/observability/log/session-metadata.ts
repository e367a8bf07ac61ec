import type { LogFields } from './log.ts';
import { redactedText, scrubSecrets } from './scrub.ts';

const mail = /[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/u;
/** An international number, or one written in groups; digits alone are mostly a count or a date. */
const phone =
  /(?<![\w.])(?:\+\d(?:[ ()./-]{0,2}\d){6,14}|\(?0\d{1,4}\)?[ /-]\d(?:[ /-]?\d){4,10}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?!\w)/;
const secretName = /pass|pwd|secret|token|api.?key|private.?key|auth|credential|cookie/i;
const maxTextLength = 128;
const maxKeys = 32;

/** Replaces mail addresses in text from outside. Other personal data cannot be told from numbers and names. */
export function hideMailAddresses(text: string): string {
  return text.replace(new RegExp(mail, 'gu'), '[personal: mail address]');
}

export function detectPersonalData(text: string): 'mail address' | 'phone number' | undefined {
  if (mail.test(text)) return 'mail address';
  return phone.test(text) ? 'phone number' : undefined;
}

/**
 * Converts a session's metadata to fields of a log line. Personal data is replaced by its kind, secrets by a mark.
 * Metadata comes from the orchestrator, so its content is unknown.
 */
export function createMetadataFields(metadata: Readonly<Record<string, unknown>>): LogFields {
  const fields: Record<string, string | number> = {};
  const entries = Object.entries(metadata);
  for (const [key, value] of entries.slice(0, maxKeys)) {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    fields[`metadata.${hidePersonal(key)}`] = secretName.test(key) ? redactedText : hidePersonal(text);
  }
  if (entries.length > maxKeys) fields['metadata.more'] = entries.length - maxKeys;
  return fields;
}

function hidePersonal(text: string): string {
  // Checked before the text is cut: half an address is still personal.
  const kind = detectPersonalData(text);
  if (kind !== undefined) return `[personal: ${kind}]`;
  const clean = scrubSecrets(text);
  return clean.length > maxTextLength ? `${clean.slice(0, maxTextLength)}…` : clean;
}
