import { AmbitError } from '../../errors.ts';

const deepest = 128;

/** Deeper values cannot be written down again without risk of running out of stack. */
export function assertShallow(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > deepest) {
      throw new AmbitError('REQUEST_INVALID', { what: `The value is nested more than ${deepest} levels deep.` });
    }
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  }
}
