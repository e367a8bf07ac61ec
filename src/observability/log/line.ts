import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { LogFields, LogLevel } from './log.ts';

/** `context injected: server=notes session=1a2b3c4d`; a value with a blank or a quote in it stands in quotes. */
export function textLine(event: string, fields: LogFields = {}): string {
  const parts = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${typeof value === 'string' ? quoted(value) : value}`],
  );
  return escapeControls(parts.length === 0 ? event : `${event}: ${parts.join(' ')}`);
}

function quoted(value: string): string {
  return /^[^\s"'=]+$/.test(value) ? value : JSON.stringify(value);
}

/** One JSON object; what a field is called cannot put another time, level or event in place of the real ones. */
export function jsonLine(time: Date, level: LogLevel, event: string, fields: LogFields = {}): string {
  return escapeControls(JSON.stringify({ ...fields, time: time.toISOString(), level, event }, order(fields)));
}

function order(fields: LogFields): string[] {
  return ['time', 'level', 'event', ...Object.keys(fields)];
}
