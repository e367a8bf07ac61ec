import { z } from 'zod';
import { workspaceSlug } from '../../lib/text/name-patterns.ts';
import { normalizeTrust, trustSpellings } from '../../rules/trust-level.ts';
import { isLoopbackHost } from './listen-rules.ts';

/** Longer timers overflow in Node and fire at once. */
const maxTimerSeconds = 2_147_483;
const maxLifeSeconds = 31_536_000;

export { workspaceSlug };

export const serverName = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

export const trustLevel = z.enum(trustSpellings).transform((spelling) => normalizeTrust(spelling) ?? 'sandboxed');

export const positiveCount = (max = 1_000_000): z.ZodNumber => z.number().int().min(1).max(max);
export const byteCount = positiveCount(256 * 1024 * 1024);
export const timerSeconds = z.number().positive().max(maxTimerSeconds);
export const lifeSeconds = positiveCount(maxLifeSeconds);

export const textLine = (max = 256): z.ZodString =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\u0000-\u001f\u007f-\u009f]*$/, { error: 'expected text without control characters' });

/** A schema for arguments and values of the operating system: anything but NUL. */
export const osText = z.string().regex(/^[^\u0000]*$/, { error: 'expected text without NUL characters' });

export const prose = z
  .string()
  .min(1)
  .max(16_384)
  .regex(/^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/, {
    error: 'expected text without control characters other than tabs and line ends',
  });

export const filePath = z
  .string()
  .min(1)
  .max(4096)
  .regex(/^(?!~[^/])[^\u0000-\u001f\u007f]*$/, {
    error: 'expected a path without control characters; of the "~" forms only "~/" is expanded',
  });

function findUrlProblem(text: string): string | undefined {
  // URL silently drops line ends and trims blanks, so such texts are refused.
  const url = /[\s\u0000-\u001f\u007f]/.test(text) || !URL.canParse(text) ? undefined : new URL(text);
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return 'expected an address that starts with http:// or https://';
  }
  if (url.username !== '' || url.password !== '') return 'an address must not contain a user name or a password';
  return undefined;
}

export const httpUrl = z
  .string()
  .max(2048)
  .superRefine((text, context) => {
    const message = findUrlProblem(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({ format: 'uri', pattern: '^[Hh][Tt][Tt][Pp][Ss]?://' });

interface KeyRule {
  readonly pattern: RegExp;
  /** The message for a key that does not match; it never repeats the key. */
  readonly rule: string;
  readonly reserved?: Readonly<Record<string, string>>;
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Creates a schema for a map whose keys follow a rule. The rule is a check beside the record rather than its key
 * schema, because Zod skips the value under a bad key, and all problems are reported at once.
 */
export function mapOf<Value extends z.ZodType>(keys: KeyRule, value: Value) {
  return z
    .record(z.string(), value)
    .superRefine(
      (record, context) => {
        for (const key of Object.keys(record)) {
          const reserved = keys.reserved !== undefined && Object.hasOwn(keys.reserved, key);
          const message = reserved ? keys.reserved?.[key] : keys.pattern.test(key) ? undefined : keys.rule;
          if (message !== undefined) {
            context.addIssue({ code: 'custom', path: [key], message, params: { at: 'key' } });
          }
        }
      },
      { when: ({ value: found }) => isMap(found) },
    )
    .meta({ propertyNames: { pattern: keys.pattern.source } });
}

/** Creates a schema for a value or a list of values, read as a list. */
export function oneOrMore<Value extends z.ZodType>(value: Value) {
  return z
    .union([value, z.array(value).min(1)])
    .transform((found): z.output<Value>[] => (Array.isArray(found) ? found : [found as z.output<Value>]));
}

export const envMap = mapOf(
  {
    pattern: /^[^\s=\u0000-\u001f\u007f-\u009f]{1,256}$/,
    rule: 'the name of a variable must not contain spaces, "=" or control characters',
  },
  osText,
);

/** A URL that must be https, except on this machine: over plain HTTP somebody on the network could replace the answer. */
export const secureUrl = httpUrl.refine((text) => isSecureUrl(text), {
  error: 'expected an address that starts with https://; http:// only on this machine',
});

function isSecureUrl(text: string): boolean {
  // A text that is no address is reported by the previous check.
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url === undefined || url.protocol !== 'http:' || isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''));
}
