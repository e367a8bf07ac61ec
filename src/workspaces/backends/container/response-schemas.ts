import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { leadingTo } from '../../resolutions.ts';
import { fileCodes, pathLength } from './requests.ts';

/** What the program beside the files says is looked at as if a stranger said it, and nothing more of it is taken. */
const name = z
  .string()
  .min(1)
  .max(1024)
  .refine((text) => !text.includes('/') && text !== '.' && text !== '..');
/** Links can lead further than any path that is asked for; names and folders have an end there too. */
const path = z
  .string()
  .max(32_768)
  .refine((text) => text === '.' || text.split('/').every((part) => part !== '' && part !== '.' && part !== '..'));
const kind = z.enum(['file', 'folder', 'link', 'special']);
const count = z.int().nonnegative();
const time = z.number().min(-8.64e15).max(8.64e15);

export const found = z.object({
  path,
  kind,
  bytes: count,
  mode: z.int().min(0).max(0o7777),
  modifiedMs: time,
  version: z.string().min(1).max(500),
});

export const written = found.extend({ created: z.boolean(), folders: count });
export const resolved = z.object({ path });
export const madeFolder = z.object({ path, folders: count });
export const removed = z.object({ path, kind, entries: count });
export const moved = z.object({ from: path, to: path, kind, folders: count });
export const opened = z.object({ facts: found, file: count.exactOptional() });
export const begun = z.object({ root: count });
export const nothing = z.object({});
export const listed = z.object({ path, more: z.boolean() });

export const listedEntries = z.array(
  z.object({
    name,
    kind,
    bytes: count.exactOptional(),
    modifiedMs: time.exactOptional(),
    unrepresentable: z.literal(true).exactOptional(),
    hidden: z.literal(true).exactOptional(),
  }),
);

const words = z
  .string()
  .max(4000)
  .transform((text) => text.split('\n').map(escapeControls).join('\n'));

const refusal = z.object({
  code: z.enum(fileCodes),
  what: words.exactOptional(),
  hint: words.exactOptional(),
  rule: z.string().max(200).exactOptional(),
  way: z.object({ asked: z.string().max(pathLength), resolved: path }).exactOptional(),
});

/** Throws a ZodError for what is no refusal. */
export function refusalOf(said: unknown): AmbitError {
  const { code, way, ...details } = refusal.parse(said);
  const error = new AmbitError(code, details);
  return way === undefined ? error : leadingTo(error, way);
}
