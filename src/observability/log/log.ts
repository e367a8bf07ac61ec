/** What a line is built from. Names in use, and what becomes of their values, are in docs/reference/logs.md. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Words for whoever runs Ambit. `event` is the same few words each time; all that differs from one time to the next is
 * a field, so that it can be shortened, scrubbed and searched for.
 */
export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  /** What only helps to find a fault; without it such lines are not even made. */
  debug?(event: string, fields?: LogFields): void;
}

export const logLevels = ['debug', 'info', 'warn'] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
