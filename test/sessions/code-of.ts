import { isAmbitError } from '../../src/errors.ts';

/** The code something is refused with, or "ok". */
export async function codeOf(act: () => unknown): Promise<string> {
  try {
    await act();
  } catch (error) {
    if (isAmbitError(error)) return error.code;
    throw error;
  }
  return 'ok';
}
