import { existsSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { type LoadedConfig, loadConfig } from '../load/load.ts';
import { assertNobodyElseWrites } from '../load/read-config-file.ts';
import { markCreated, type ReplacedFile, replaceWithBackup } from './backups.ts';

/** Replaces a configuration and keeps the old version, or records that it is new. */
export function replaceConfiguration(file: string, text: string, mayHoldSecrets: boolean): ReplacedFile {
  const replaced = replaceWithBackup(file, text, mayHoldSecrets);
  if (replaced.backup === undefined) markCreated(file);
  return replaced;
}

/** Tells the person that other accounts can no longer read the configuration, which they could before. */
export function describeModeChange(mode: number | undefined): string[] {
  if (mode === undefined) return [];
  const [now, before] = [mode & 0o700, mode].map((each) => each.toString(8).padStart(4, '0'));
  return [`The configuration may contain secrets now. Only you can read it (mode ${now} instead of ${before}).`];
}

/** The start of a configuration that did not exist. */
export const newConfiguration = '# The configuration of Ambit. "ambit help" lists the commands.\nversion: 1\n';

interface EditedPaths {
  readonly configFile: string;
  readonly dataDir: string;
}

/** The configuration before a change. */
export interface OpenedConfiguration extends LoadedConfig {
  readonly paths: EditedPaths;
  /** The text of the file; undefined where there is none. */
  readonly before: string | undefined;
}

/** Opens the configuration for a change. One that does not exist yet is an empty one. */
export async function openConfiguration(paths: EditedPaths): Promise<OpenedConfiguration> {
  const { configFile } = paths;
  assertNobodyElseWrites(configFile);
  const before = existsSync(configFile) ? readFileSync(configFile, 'utf8') : undefined;
  const loaded = await loadConfig({ text: before ?? newConfiguration, file: configFile });
  return { ...loaded, paths, before };
}

interface SavedConfiguration {
  readonly data: { readonly configFile: string; readonly backup: string | null };
  readonly lines: readonly string[];
}

/** Throws if the configuration is no longer as it was read. Saving would take back what somebody has changed meanwhile. */
export function assertSameConfiguration(configFile: string, before: string | undefined): void {
  const now = existsSync(configFile) ? readFileSync(configFile, 'utf8') : undefined;
  if (now === before) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: `${configFile} has been changed in the meantime, so nothing was written.`,
    hint: 'Run the command again.',
  });
}

/** Replaces the configuration and keeps the old version. Returns what to tell the person. */
export function saveConfiguration(
  { paths: { configFile }, before }: OpenedConfiguration,
  text: string,
  mayHoldNewSecrets: boolean,
): SavedConfiguration {
  assertNobodyElseWrites(configFile);
  assertSameConfiguration(configFile, before);
  makeFolders(dirname(configFile));
  const { backup, closedFrom } = replaceConfiguration(configFile, text, mayHoldNewSecrets);
  const file = before === undefined ? `Created ${configFile}` : `Backup: ${backup}`;
  return { data: { configFile, backup: backup ?? null }, lines: [...describeModeChange(closedFrom), file] };
}
