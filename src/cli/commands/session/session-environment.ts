import { type Named, readNamed } from '../../../sessions/named-by-environment.ts';
import { UsageFault } from '../../command.ts';

export type { Named };

/** `AMBIT_SESSION_ID` and its companions, for those who start us without a configuration. */
export function namedByEnvironment(env: NodeJS.ProcessEnv): Named {
  return readNamed(env, (what) => new UsageFault(what));
}
