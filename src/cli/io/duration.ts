import { type Invocation, text, UsageFault } from '../command.ts';

const unitSeconds: ReadonlyMap<string, number> = new Map([
  ['s', 1],
  ['m', 60],
  ['h', 3600],
  ['d', 86_400],
  ['w', 604_800],
  ['y', 31_536_000],
]);

/** A time such as "90s", "12h", "30d"; undefined when the flag was not given. */
export function duration(invocation: Invocation, name: string): number | undefined {
  const value = text(invocation, name);
  if (value === undefined) return undefined;
  const [, count, unit] = /^([1-9][0-9]{0,8})([smhdwy])$/.exec(value) ?? [];
  const seconds = unit === undefined ? undefined : unitSeconds.get(unit);
  if (seconds === undefined) throw new UsageFault(`--${name} takes a time such as "12h" or "30d"`);
  return Number(count) * seconds;
}

/** The same, or a day such as "2027-01-31", at whose end it is over. */
export function durationOrDay(invocation: Invocation, name: string): number | undefined {
  const value = text(invocation, name);
  if (value === undefined || !/^\d{4}-\d\d-\d\d$/.test(value)) return duration(invocation, name);
  const end = Date.parse(`${value}T23:59:59Z`);
  const left = Math.ceil((end - Date.now()) / 1000);
  if (!(left > 0)) throw new UsageFault(`--${name} names a day that is over, or none`);
  return left;
}
