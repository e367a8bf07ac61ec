import { escapeControls } from './escape-controls.ts';

/** Words for whoever runs Ambit: one line each, to stderr; stdout belongs to data. */
export interface Log {
  info(line: string): void;
  warn(line: string): void;
  /** What only helps to find a fault; without it such lines are not even made. */
  debug?(line: string): void;
}

export const logLevels = ['debug', 'info', 'warn'] as const;
export type LogLevel = (typeof logLevels)[number];

export function stderrLog(level: LogLevel = 'info'): Log {
  const say = (line: string) => void process.stderr.write(`ambit: ${escapeControls(line)}\n`);
  return { info: level === 'warn' ? () => {} : say, warn: say, ...(level === 'debug' ? { debug: say } : {}) };
}
