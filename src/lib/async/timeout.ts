import { AmbitError } from '../../errors.ts';

/** Waits for the work, or throws UPSTREAM_TIMEOUT when it takes longer. The work itself goes on. */
export async function withTimeout<T>(work: Promise<T>, ms: number, what?: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new AmbitError('UPSTREAM_TIMEOUT', what === undefined ? {} : { what })), ms);
  });
  work.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
