import { createHash } from 'node:crypto';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';

type Environment = Readonly<Record<string, string | undefined>>;

interface LocateConfigOptions {
  /** The value of `--config`. */
  readonly flag?: string | undefined;
  readonly env: Environment;
  readonly home: string;
}

interface LocateDataDirOptions {
  /** The value of `--data-dir`. */
  readonly flag?: string | undefined;
  readonly env: Environment;
  readonly configFile: string;
  readonly home: string;
}

/** Ignores empty values, and relative paths as the XDG specification says. */
function chooseBaseFolder(value: string | undefined, otherwise: string): string {
  return value !== undefined && isAbsolute(value) ? value : otherwise;
}

/** Finds the configuration file: `--config`, AMBIT_CONFIG or the user's folder; never the working directory. */
export function locateConfig({ flag, env, home }: LocateConfigOptions): string {
  if (flag !== undefined) return resolve(flag);
  const named = env['AMBIT_CONFIG'];
  if (named !== undefined && named !== '') return resolve(named);
  return join(chooseBaseFolder(env['XDG_CONFIG_HOME'], join(home, '.config')), 'ambit', 'ambit.yaml');
}

/** Finds the data directory: `--data-dir`, else AMBIT_DATA_DIR, else one for each configuration folder. */
export function locateDataDir({ flag, env, configFile, home }: LocateDataDirOptions): string {
  if (flag !== undefined) return resolve(flag);
  const named = env['AMBIT_DATA_DIR'];
  if (named !== undefined && named !== '') return resolve(named);
  const folder = dirname(resolve(configFile));
  const hash = createHash('sha256').update(folder).digest('hex').slice(0, 8);
  const state = chooseBaseFolder(env['XDG_STATE_HOME'], join(home, '.local', 'state'));
  return join(state, 'ambit', `${basename(folder)}-${hash}`);
}

/** A folder that lists running gateways. */
export interface RegistryFolder {
  readonly path: string;
  /** The folder that must exist already. Ambit makes neither a runtime folder nor a home folder. */
  readonly base: string;
}

/** Finds the folders that list running gateways, the preferred one first. A shared temporary folder is never one. */
export function locateRegistryFolders({ env, home }: Pick<LocateConfigOptions, 'env' | 'home'>): RegistryFolder[] {
  const runtime = env['XDG_RUNTIME_DIR'] ?? '';
  return [
    { path: join(runtime, 'ambit'), base: runtime },
    { path: join(home, '.local', 'state', 'ambit', 'run'), base: home },
  ].filter(({ base }) => isAbsolute(base));
}
