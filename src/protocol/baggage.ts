import { foldKey } from './json/fold-key.ts';

/** What every platform passes on, by W3C; a longer one may be dropped. */
const longest = 8192;

/**
 * W3C baggage without the members that could pass for ours, in whatever case or escape their key is written. The same
 * text when there are none; what stays, stays as it was. Nothing of one that is longer than anybody has to pass on.
 */
export function withoutOurBaggage(baggage: string): string {
  if (baggage.length > longest) return '';
  const members = baggage.split(',');
  const kept = members.filter((member) => !foldKey(decoded(keyOf(member))).startsWith('ambit'));
  return kept.length === members.length ? baggage : kept.join(',');
}

function keyOf(member: string): string {
  return (/^[^=;]*/.exec(member)?.[0] ?? '').trim();
}

/** Run by run: an escape that cannot be read must not hide the ones that can. */
function decoded(key: string): string {
  return key
    .replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'))
    .trim();
}
