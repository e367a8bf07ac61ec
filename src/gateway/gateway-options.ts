import type { Config } from '../config/schema/schema.ts';
import type { Log } from '../observability/log/log.ts';
import type { Reply } from '../protocol/channel.ts';
import type { SessionStore } from '../stores/store.ts';
import type { StageWatch } from './compose.ts';
import type { Arrived } from './exchange.ts';
import type { StageList } from './stage.ts';

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
  /** Changes the list of the stages that every request passes. */
  readonly arrangeStages?: (list: StageList<Arrived, Reply>) => StageList<Arrived, Reply>;
  /** Where OpenTelemetry's own names are looked for beside the configuration. */
  readonly environment?: NodeJS.ProcessEnv;
}
