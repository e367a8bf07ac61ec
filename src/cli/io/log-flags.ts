import { type Log, type LogFormat, logFormats, logLevels } from '../../observability/log/log.ts';
import { createStderrLog } from '../../observability/log/stderr-log.ts';
import { type Flag, type Invocation, readFlag, UsageError } from '../command.ts';

export const logFlags: Readonly<Record<string, Flag>> = {
  'log-level': {
    type: 'string',
    value: 'LEVEL',
    help: 'Log level: debug, info or warn (AMBIT_LOG_LEVEL)',
    choices: logLevels,
  },
  'log-format': {
    type: 'string',
    value: 'FORMAT',
    help: 'Log format: text or json (AMBIT_LOG_FORMAT)',
    choices: logFormats,
  },
};

/** Creates a log on stderr with the level and format of the flags or the environment. */
export function createLog(invocation: Invocation): Log {
  const { env } = invocation;
  const level = readFlag(invocation, 'log-level') ?? (env['AMBIT_LOG_LEVEL'] || 'info');
  return createStderrLog(requireOneOf(logLevels, level, 'level'), readLogFormat(invocation));
}

export function readLogFormat(invocation: Invocation): LogFormat {
  const format = readFlag(invocation, 'log-format') ?? (invocation.env['AMBIT_LOG_FORMAT'] || 'text');
  return requireOneOf(logFormats, format, 'format');
}

function requireOneOf<Word extends string>(words: readonly Word[], given: string, what: string): Word {
  const word = words.find((each) => each === given);
  if (word === undefined) throw new UsageError(`the log ${what} must be one of ${words.join(', ')}, not "${given}"`);
  return word;
}
