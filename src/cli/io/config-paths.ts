import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { locateConfig, locateDataDir } from '../../config/load/locate.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { Log } from '../../observability/log/log.ts';
import { type Invocation, text } from '../command.ts';

export interface Places {
  readonly configFile: string;
  readonly dataDir: string;
}

export function placesOf(invocation: Invocation): Places {
  const { env } = invocation;
  const home = homedir();
  const configFile = locateConfig({ flag: text(invocation, 'config'), env, home });
  const dataDir = locateDataDir({ flag: text(invocation, 'data-dir'), env, configFile, home });
  return { configFile, dataDir };
}

/** The configuration, its warnings said once: in the log where there is one. */
export async function configOf(places: Places, log?: Log): Promise<Config> {
  if (!existsSync(places.configFile)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `There is no configuration at ${places.configFile}.`,
      hint: 'Write one there, or name another with --config FILE.',
    });
  }
  // What reads a configuration takes longer to load than most commands take.
  const { loadConfig } = await import('../../config/load/load.ts');
  const { config, warnings } = await loadConfig({ file: places.configFile });
  for (const warning of warnings) {
    if (log === undefined) process.stderr.write(`ambit: ${escapeControls(warning)}\n`);
    else log.warn('configuration', { warning });
  }
  return config;
}
