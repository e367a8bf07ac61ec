/** The fields of a log line. Names in use, and the treatment of their values, are in docs/reference/logs.md. */
export type LogFields = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** The log for operators. `event` is constant; all that varies is a field, to be shortened, scrubbed and found. */
export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  /** Lines that only help to find a bug. Undefined if they are off, so that they are not even built. */
  debug?(event: string, fields?: LogFields): void;
}

export const logLevels = ['debug', 'info', 'warn'] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
