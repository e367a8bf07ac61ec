export interface Flag {
  readonly type: 'string' | 'boolean';
  /** The name of its value in the help. `FILE` and `DIR` are completed as paths. */
  readonly value?: string;
  /** Begins with a capital letter and ends without a full stop. */
  readonly help: string;
  readonly multiple?: boolean;
  /** One letter, for `-h` instead of `--help`. */
  readonly short?: string;
  /** The only accepted values. Others are refused, and shells complete these. */
  readonly choices?: readonly string[];
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
  /** One line in the imperative. Begins with a capital letter and ends without a full stop. */
  readonly help: string;
  readonly operands?: string;
  /** The only accepted values of the first operand. Others are refused, and shells complete these. */
  readonly operandChoices?: readonly string[];
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
  config: { type: 'string', value: 'FILE', help: 'Configuration file (AMBIT_CONFIG)' },
  'data-dir': { type: 'string', value: 'DIR', help: 'Folder for the data of Ambit (AMBIT_DATA_DIR)' },
  help: { type: 'boolean', short: 'h', help: 'Show this help' },
};

export const jsonFlag: Flag = { type: 'boolean', help: 'Print JSON' };

/** Aliases of trust levels are for configuration files. Here, a short list shows every typing error. */
export const trustFlag: Flag = {
  type: 'string',
  value: 'LEVEL',
  help: 'Trust level: direct or sandboxed',
  choices: ['direct', 'sandboxed'],
};

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
  if (!/^[1-9][0-9]{0,8}$/.test(value)) throw new UsageError(`--${name} takes a whole number of seconds, such as 3600`);
  return Number(value);
}

const unitSeconds: ReadonlyMap<string, number> = new Map([
  ['s', 1],
  ['m', 60],
  ['h', 3600],
  ['d', 86_400],
  ['w', 604_800],
  ['y', 31_536_000],
]);

export const durationForms = 'a number with s, m, h, d, w or y, such as 12h or 30d';

/** Reads a flag that takes a time such as "90s", "12h" or "30d", in seconds; undefined when it was not given. */
export function readDurationFlag(invocation: Invocation, name: string, forms = durationForms): number | undefined {
  const value = readFlag(invocation, name);
  if (value === undefined) return undefined;
  const [, count, unit] = /^([1-9][0-9]{0,8})([smhdwy])$/.exec(value) ?? [];
  const seconds = unit === undefined ? undefined : unitSeconds.get(unit);
  if (seconds === undefined) throw new UsageError(`--${name}: "${value}" is not a valid time`, `Use ${forms}.`);
  return Number(count) * seconds;
}

/** The forms of a time, for the hint of an error. */
const timeForms = `${durationForms} for a time ago, or a time such as 2026-11-18T09:30`;

/** Reads a flag that takes a time ago, or a date or time in the time zone of this machine. The result is in UTC. */
export function readTimeFlag(invocation: Invocation, name: string): string | undefined {
  const given = readFlag(invocation, name);
  if (given === undefined) return undefined;
  const isDate = /^\d{4}-\d\d-\d\d$/.test(given);
  const isTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:?\d\d)?$/.test(given);
  const time = isDate ? Date.parse(`${given}T00:00`) : isTime ? Date.parse(given.replace(' ', 'T')) : Number.NaN;
  if (!Number.isNaN(time)) return new Date(time).toISOString();
  const ago = (readDurationFlag(invocation, name, timeForms) ?? 0) * 1000;
  return new Date(Math.max(0, Date.now() - ago)).toISOString();
}

/** Reads a flag that takes a whole number. `shown` is its name in the error. */
export function readCountFlag(
  invocation: Invocation,
  name: string,
  { shown = `--${name}`, min = 1, max }: { readonly shown?: string; readonly min?: number; readonly max: number },
): number | undefined {
  const given = readFlag(invocation, name);
  if (given === undefined) return undefined;
  if (/^[0-9]{1,7}$/.test(given) && Number(given) >= min && Number(given) <= max) return Number(given);
  throw new UsageError(`${shown} takes a whole number from ${min} to ${max}`);
}

export function requirePositional(invocation: Invocation, what: string): string {
  const [positional, ...more] = invocation.positionals;
  if (positional === undefined) throw new UsageError(`${what} is missing`);
  if (positional === '') throw new UsageError(`${what} is empty`);
  if (more.length > 0) throw new UsageError(`only one ${what} is expected`);
  return positional;
}
