import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import { normalizeTrust, type TrustLevel } from '../../trust/trust-level.ts';

/** A list whose readers leave it as it is. */
export function list<Each extends z.ZodType>(
  each: Each,
): z.ZodType<readonly z.output<Each>[], readonly z.input<Each>[]> {
  return z.array(each);
}

/** Any spelling of a trust level, read as the one that counts. */
export const givenTrust = z.string().transform(readTrust).describe('"direct" or "sandboxed".');

function readTrust(text: string): TrustLevel {
  const trustLevel = normalizeTrust(text);
  if (trustLevel !== undefined) return trustLevel;
  throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
}

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string().describe('One of the codes in the reference of errors.'),
    detail: z.string().describe('What happened, for a person.'),
    hint: z.string().describe('What to do about it.'),
  })
  .meta({ id: 'Problem' });
