import type { Config } from '../config/schema.ts';
import type { Log } from '../log.ts';
import type { SessionStore } from '../stores/store.ts';
import type { StageWatch } from './chain.ts';

export interface GatewayOptions {
  readonly config: Config;
  readonly configFile: string;
  readonly dataDir: string;
  readonly log: Log;
  /** False where a server may not be what the configuration says: then it is given nobody's credential. */
  readonly credentials?: boolean;
  /** Instead of the one the configuration names; closed with the gateway. */
  readonly store?: SessionStore;
  /** Where a store that is a file lies, if not in the data directory. */
  readonly storeDir?: string;
  readonly watchStages?: StageWatch | undefined;
  /** Where OpenTelemetry's own names are looked for beside the configuration. */
  readonly environment?: NodeJS.ProcessEnv;
}
