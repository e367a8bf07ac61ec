import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { Log, LogFields, LogFormat, LogLevel } from './log.ts';
import { createSafeLog, isLines } from './safe-log.ts';

/** Creates a log that writes one line per event to stderr; stdout is for data. */
export function createStderrLog(level: LogLevel = 'info', format: LogFormat = 'text'): Log {
  const createWriter = (at: LogLevel) => (event: string, fields?: LogFields) => {
    const text = format === 'json' ? formatJsonLine(new Date(), at, event, fields) : formatTextLines(event, fields);
    process.stderr.write(`${text}\n`);
  };
  return createSafeLog({
    info: level === 'warn' ? () => {} : createWriter('info'),
    warn: createWriter('warn'),
    ...(level === 'debug' ? { debug: createWriter('debug') } : {}),
  });
}

/** Formats an event. A field of several lines follows below, each line with the name of the field in front. */
export function formatTextLines(event: string, fields: LogFields = {}): string {
  const entries = Object.entries(fields);
  const below = entries.flatMap(([name, value]) =>
    isLines(value) ? value.map((line) => escapeControls(`  ${name} | ${line}`)) : [],
  );
  const others = Object.fromEntries(entries.filter(([, value]) => !isLines(value)));
  return [formatTextLine(event, others), ...below].map((line) => `ambit: ${line}`).join('\n');
}

/** Formats `context injected: server=notes session=1a2b3c4d`; a value with a blank or a quote is quoted. */
export function formatTextLine(event: string, fields: LogFields = {}): string {
  const parts = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${formatValue(value)}`],
  );
  return escapeControls(parts.length === 0 ? event : `${event}: ${parts.join(' ')}`);
}

function formatValue(value: Exclude<LogFields[string], undefined>): string {
  if (isLines(value)) return JSON.stringify(value.join('\n'));
  return typeof value === 'string' ? quoteIfNeeded(value) : String(value);
}

function quoteIfNeeded(value: string): string {
  return /^[^\s"'=]+$/.test(value) ? value : JSON.stringify(value);
}

/** Formats one JSON object. A field cannot replace the real time, level or event. */
export function formatJsonLine(time: Date, level: LogLevel, event: string, fields: LogFields = {}): string {
  const order = ['time', 'level', 'event', ...Object.keys(fields)];
  return escapeControls(JSON.stringify({ ...fields, time: time.toISOString(), level, event }, order));
}
