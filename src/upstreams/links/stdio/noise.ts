import type { Journal } from '../../../observability/journal/journal.ts';

/** What a server says that is of no use to anybody: counted, and told the journal now and then. */
export function createNoise(
  journal: Journal,
  facts: { readonly sessionId: string | undefined; readonly server: string },
) {
  const counts = new Map<string, number>();
  return {
    note(what: string): void {
      counts.set(what, (counts.get(what) ?? 0) + 1);
    },
    record(): void {
      for (const [what, count] of counts) journal.record({ kind: 'process', ...facts, event: 'noise', what, count });
      counts.clear();
    },
  };
}
