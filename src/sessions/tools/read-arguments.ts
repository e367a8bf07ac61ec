import type * as z from 'zod';
import { AmbitError } from '../../errors.ts';

const longestWords = 300;
const mostIssues = 5;

/** The arguments as the schema has them; what is wrong with them is said in words a model can act on. */
export function readArguments<S extends z.ZodType>(schema: S, args: unknown): z.output<S> {
  const read = schema.safeParse(args ?? {});
  if (read.success) return read.data;
  const words = read.error.issues
    .slice(0, mostIssues)
    .map(({ path, message }) => (path.length === 0 ? message : `"${path.join('.')}": ${message}`))
    .join('; ');
  throw new AmbitError('REQUEST_INVALID', {
    what: `The arguments do not fit: ${words.slice(0, longestWords)}.`,
    hint: 'Correct them as the schema of the tool says.',
  });
}
