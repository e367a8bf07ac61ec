import { jsonLine, textLine } from './line.ts';
import type { Log, LogFields, LogFormat, LogLevel } from './log.ts';
import { safeLog } from './safe-log.ts';

/** One line each, to stderr; stdout belongs to data. */
export function stderrLog(level: LogLevel = 'info', format: LogFormat = 'text'): Log {
  const sayAt = (at: LogLevel) => (event: string, fields?: LogFields) => {
    const line = format === 'json' ? jsonLine(new Date(), at, event, fields) : `ambit: ${textLine(event, fields)}`;
    process.stderr.write(`${line}\n`);
  };
  return safeLog({
    info: level === 'warn' ? () => {} : sayAt('info'),
    warn: sayAt('warn'),
    ...(level === 'debug' ? { debug: sayAt('debug') } : {}),
  });
}
