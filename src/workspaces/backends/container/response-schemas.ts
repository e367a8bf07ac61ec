import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { attachResolution } from '../../resolutions.ts';
import { fileCodes, maxPathLength } from './files-protocol.ts';

/** Responses of the files program are validated as untrusted input, and nothing else of them is used. */
const nameSchema = z
  .string()
  .min(1)
  .max(1024)
  .refine((text) => !text.includes('/') && text !== '.' && text !== '..');
/** Resolved paths can be longer than requested ones, because of links. */
const pathSchema = z
  .string()
  .max(32_768)
  .refine((text) => text === '.' || text.split('/').every((part) => part !== '' && part !== '.' && part !== '..'));
const kindSchema = z.enum(['file', 'folder', 'link', 'special']);
const countSchema = z.int().nonnegative();
const timeSchema = z.number().min(-8.64e15).max(8.64e15);

export const found = z.object({
  path: pathSchema,
  kind: kindSchema,
  bytes: countSchema,
  mode: z.int().min(0).max(0o7777),
  modifiedMs: timeSchema,
  version: z.string().min(1).max(500),
});

export const written = found.extend({ created: z.boolean(), folders: countSchema });
export const resolved = z.object({ path: pathSchema });
export const madeFolder = z.object({ path: pathSchema, folders: countSchema });
export const removed = z.object({ path: pathSchema, kind: kindSchema, entries: countSchema });
export const moved = z.object({ from: pathSchema, to: pathSchema, kind: kindSchema, folders: countSchema });
export const opened = z.object({ facts: found, file: countSchema.exactOptional() });
export const begun = z.object({ root: countSchema });
export const nothing = z.object({});
export const listed = z.object({ path: pathSchema, more: z.boolean() });

export const listedEntries = z.array(
  z.object({
    name: nameSchema,
    kind: kindSchema,
    bytes: countSchema.exactOptional(),
    modifiedMs: timeSchema.exactOptional(),
    unrepresentable: z.literal(true).exactOptional(),
    hidden: z.literal(true).exactOptional(),
  }),
);

const safeText = z
  .string()
  .max(4000)
  .transform((text) => text.split('\n').map(escapeControls).join('\n'));

const refusalSchema = z.object({
  code: z.enum(fileCodes),
  what: safeText.exactOptional(),
  hint: safeText.exactOptional(),
  rule: z.string().max(200).exactOptional(),
  way: z.object({ asked: z.string().max(maxPathLength), resolved: pathSchema }).exactOptional(),
});

/** Throws a ZodError for an invalid refusal. */
export function parseRefusal(value: unknown): AmbitError {
  const { code, way, ...details } = refusalSchema.parse(value);
  const error = new AmbitError(code, details);
  return way === undefined ? error : attachResolution(error, way);
}
