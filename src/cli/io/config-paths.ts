import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { locateConfig, locateDataDir } from '../../config/load/locate.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { Log } from '../../observability/log/log.ts';
import { type Invocation, readFlag, UsageError } from '../command.ts';

export interface ConfigPaths {
  readonly configFile: string;
  readonly dataDir: string;
}

export function findConfigPaths(invocation: Invocation): ConfigPaths {
  const { env } = invocation;
  for (const name of ['config', 'data-dir']) {
    if (readFlag(invocation, name) === '') throw new UsageError(`--${name} needs a path, and the given one is empty`);
  }
  const home = homedir();
  const configFile = locateConfig({ flag: readFlag(invocation, 'config'), env, home });
  const dataDir = locateDataDir({ flag: readFlag(invocation, 'data-dir'), env, configFile, home });
  return { configFile, dataDir };
}

/** Loads the configuration and reports its warnings, to the log where there is one. */
export async function loadConfiguration(paths: ConfigPaths, log?: Log): Promise<Config> {
  if (!existsSync(paths.configFile)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `There is no configuration at ${paths.configFile}.`,
      hint: 'Create one with "ambit init", or choose another file with --config FILE.',
    });
  }
  // Loaded late: the configuration reader takes longer to load than most commands take.
  const { loadConfig } = await import('../../config/load/load.ts');
  const { config, warnings } = await loadConfig({ file: paths.configFile });
  for (const warning of warnings) {
    if (log === undefined) process.stderr.write(`ambit: ${escapeControls(warning)}\n`);
    else log.warn('configuration', { warning });
  }
  return config;
}
