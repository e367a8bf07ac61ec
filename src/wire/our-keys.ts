import { type Edit, removeMembers } from './edit.ts';
import type { Shape } from './scan.ts';

/** `_meta` keys under our prefix are ours alone to write: every inbound copy is taken out, whoever sent it. */
export function isOurKey(key: string): boolean {
  return key.length > 5 && key.charCodeAt(5) === 0x2f && key.slice(0, 5).toLowerCase() === 'ambit';
}

export function stripOurKeys(meta: Shape | undefined): Edit[] {
  if (meta === undefined) return [];
  for (const member of meta.members) {
    if (isOurKey(member.key)) return removeMembers(meta, (each) => isOurKey(each.key));
  }
  return [];
}
