import { expect } from 'vitest';
import { type LoadedConfig, loadConfig } from '../../../src/config/load/load.ts';
import { isAmbitError } from '../../../src/errors.ts';

/** Loads a text as if it stood in /srv/ambit/ambit.yaml. */
export function loadText(text: string, file = '/srv/ambit/ambit.yaml'): Promise<LoadedConfig> {
  return loadConfig({ text, file });
}

/** The problems a text is refused with, line by line. */
export async function problemsOf(text: string, file?: string): Promise<string[]> {
  const error = await loadText(text, file).then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!isAmbitError(error)) return expect.fail(`expected a refusal, got ${String(error)}`);
  expect(error.code).toBe('CONFIG_INVALID');
  return error.message.split('\n');
}
