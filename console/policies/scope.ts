import type { AnswerOf } from '../api/request.ts';

export type Policy = AnswerOf<'GET /api/v1/policies'>['policies'][number];
export type Objective = AnswerOf<'GET /api/v1/objectives'>['objectives'][number];

const kinds = ['org', 'team', 'user', 'workspace'];

/** Reads a scope such as `team:core`. */
export function readScope(scope: string): { readonly kind: string; readonly name: string } {
  const at = scope.indexOf(':');
  return at === -1 ? { kind: scope, name: '' } : { kind: scope.slice(0, at), name: scope.slice(at + 1) };
}

export function writeScope(kind: string, name: string): string {
  return kind === 'org' ? kind : `${kind}:${name}`;
}

const labels: Readonly<Record<string, string>> = { team: 'Team', user: 'User', workspace: 'Workspace' };

/** Says in words to whom a scope applies. */
export function describeScope(scope: string): string {
  const { kind, name } = readScope(scope);
  return kind === 'org' ? 'Organisation' : `${labels[kind] ?? kind} ${name}`;
}

export const scopeKinds = [
  ['org', 'Organisation'],
  ['team', 'Team'],
  ['user', 'User'],
  ['workspace', 'Workspace'],
] as const;

interface Scoped {
  readonly scope: string;
  readonly order: number;
}

/** Groups entries by their scope, from the widest to the narrowest, each group in its order. */
export function groupByScope<Entry extends Scoped>(
  entries: readonly Entry[],
): { readonly scope: string; readonly entries: Entry[] }[] {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) groups.set(entry.scope, [...(groups.get(entry.scope) ?? []), entry]);
  return [...groups]
    .map(([scope, each]) => ({ scope, entries: each.sort((a, b) => a.order - b.order) }))
    .sort((a, b) => rankOf(a.scope) - rankOf(b.scope) || (a.scope < b.scope ? -1 : 1));
}

function rankOf(scope: string): number {
  return kinds.indexOf(readScope(scope).kind);
}

/** Selects the entries of a kind of scope whose scope, name or text contains the words. */
export function selectEntries<Entry extends Scoped & { readonly text: string }>(
  entries: readonly Entry[],
  { kind, words, nameOf }: { readonly kind: string; readonly words: string; readonly nameOf: (entry: Entry) => string },
): readonly Entry[] {
  const part = words.toLowerCase();
  return entries.filter(
    (entry) =>
      (kind === '' || readScope(entry.scope).kind === kind) &&
      (part === '' || `${entry.scope}\n${nameOf(entry)}\n${entry.text}`.toLowerCase().includes(part)),
  );
}
