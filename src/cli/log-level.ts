import { type Log, logLevels, stderrLog } from '../log.ts';
import { type Flag, type Invocation, text, UsageFault } from './command.ts';

export const logLevelFlag: Flag = { type: 'string', value: 'L', help: 'debug, info or warn (AMBIT_LOG_LEVEL)' };

/** Words on stderr, as many as were asked for. */
export function logOf(invocation: Invocation): Log {
  const said = text(invocation, 'log-level') ?? (invocation.env['AMBIT_LOG_LEVEL'] || 'info');
  const level = logLevels.find((each) => each === said);
  if (level === undefined) throw new UsageFault(`the log level is one of ${logLevels.join(', ')}`);
  return stderrLog(level);
}
