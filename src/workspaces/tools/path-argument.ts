import * as z from 'zod';

/** Longer ones are no paths anywhere. */
export const pathArgument = z.string().min(1).max(4096);

export const sha256Shown = z.string().nullable().describe('Of the whole file; null above 16 MiB.');
