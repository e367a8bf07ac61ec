export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly value?: string;
  readonly help: string;
  readonly multiple?: boolean;
}

export interface Invocation {
  readonly flags: Readonly<Record<string, string | boolean | string[] | undefined>>;
  readonly positionals: readonly string[];
  /** The arguments after `--`. */
  readonly passthrough: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** One command of the command line: its flags, its help and the function that runs it. */
export interface Command {
  readonly help: string;
  readonly operands?: string;
  readonly flags: Readonly<Record<string, Flag>>;
  /** Returns the exit code; 0 unless given. */
  readonly run: (invocation: Invocation) => Promise<number | undefined>;
}

/** Wrong usage of a command. The hint is the last line of the message. */
export class UsageError extends Error {
  /** Advice instead of the help of the command. */
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

export const globalFlags: Readonly<Record<string, Flag>> = {
  config: { type: 'string', value: 'FILE', help: 'the configuration (AMBIT_CONFIG)' },
  'data-dir': { type: 'string', value: 'DIR', help: 'where Ambit keeps its files (AMBIT_DATA_DIR)' },
  help: { type: 'boolean', help: 'this text' },
};

export const jsonFlag: Flag = { type: 'boolean', help: 'data as JSON on stdout' };

export function readFlag(invocation: Invocation, name: string): string | undefined {
  const value = invocation.flags[name];
  return typeof value === 'string' ? value : undefined;
}

/** Reads a flag that must be given. `value` stands for its value in the error. */
export function requireFlag(invocation: Invocation, name: string, value: string): string {
  const given = readFlag(invocation, name);
  if (given === undefined) throw new UsageError(`--${name} ${value} is missing`);
  return given;
}

/** The values of a repeatable flag, in order; undefined when the flag was not given. */
export function readListFlag(invocation: Invocation, name: string): readonly string[] | undefined {
  const value = invocation.flags[name];
  return Array.isArray(value) ? value : undefined;
}

/** Reads a flag that takes whole seconds; undefined when it was not given. */
export function readSecondsFlag(invocation: Invocation, name: string): number | undefined {
  const value = readFlag(invocation, name);
  if (value === undefined) return undefined;
  if (!/^[1-9][0-9]{0,8}$/.test(value)) throw new UsageError(`--${name} takes a whole number of seconds`);
  return Number(value);
}

export function requirePositional(invocation: Invocation, what: string): string {
  const [positional, ...more] = invocation.positionals;
  if (positional === undefined) throw new UsageError(`${what} is missing`);
  if (positional === '') throw new UsageError(`${what} is empty`);
  if (more.length > 0) throw new UsageError(`one ${what} is enough`);
  return positional;
}
