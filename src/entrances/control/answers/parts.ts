import { z } from 'zod';

/** A read-only list. */
export function listOf<Each extends z.ZodType>(
  each: Each,
): z.ZodType<readonly z.output<Each>[], readonly z.input<Each>[]> {
  return z.array(each);
}

export const declaredFlag = z.boolean().describe('Declared in the configuration file; it can only be changed there.');
