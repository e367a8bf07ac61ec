import { memberOf, type Shape, shapeAt, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';

/** How a client names the workspace it means: nothing, one, or more than one, which names none. */
export type Announced = string | undefined | typeof contradictory;

export const contradictory = Symbol('contradictory');

/** Reads `_meta.<key>.workspace` and `_meta["<key>.workspace"]`. Empty strings and what is no string say nothing. */
export function announcedBy(keys: readonly string[]): (message: Message) => Announced {
  const holders = new Set(keys);
  const dotted = new Set(keys.map((key) => `${key}.workspace`));
  return function announced({ bytes, meta }) {
    let found: Announced;
    for (const member of meta?.members ?? []) {
      if (holders.has(member.key)) found = both(found, inside(bytes, shapeAt(bytes, member)));
      else if (dotted.has(member.key)) found = both(found, stringAt(bytes, member));
    }
    return found;
  };
}

function inside(bytes: Buffer, holder: Shape | undefined): Announced {
  const written = holder?.members.filter(({ key }) => key === 'workspace') ?? [];
  if (written.length > 1) return contradictory;
  return stringAt(bytes, memberOf(holder, 'workspace'));
}

function both(one: Announced, other: Announced): Announced {
  if (other === undefined || other === '') return one;
  return one === undefined || one === other ? other : contradictory;
}
