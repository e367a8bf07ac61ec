import { type Flag, type Invocation, text, UsageFault } from '../../command.ts';

export const scopeFlag: Flag = {
  type: 'string',
  value: 'S',
  help: 'org, team:T, user:U or workspace:W',
};
export const placeFlags = {
  order: { type: 'string', value: 'N', help: 'lower ones come first in their scope' },
  disabled: { type: 'boolean', help: 'kept, and given to nobody' },
} as const satisfies Readonly<Record<string, Flag>>;

export function scopeOf(invocation: Invocation): string {
  const scope = text(invocation, 'scope');
  if (scope === undefined) throw new UsageFault('--scope S is missing: org, team:T, user:U or workspace:W');
  return scope;
}

/** Where it stands among the others, as far as that was said. */
export function placeOf(invocation: Invocation): { readonly order?: number; readonly enabled?: boolean } {
  const order = text(invocation, 'order');
  if (order !== undefined && !/^-?[0-9]{1,7}$/.test(order)) throw new UsageFault('--order takes a whole number');
  return {
    ...(order === undefined ? {} : { order: Number(order) }),
    ...(invocation.flags['disabled'] === true ? { enabled: false } : {}),
  };
}

/** The words of a policy or objective; several are one text. */
export function textOf(invocation: Invocation): string {
  if (invocation.words.length === 0) throw new UsageFault('TEXT is missing');
  return invocation.words.join(' ');
}
