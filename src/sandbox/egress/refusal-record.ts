import type { EgressRefusal } from './open-egress.ts';

/** A line of the journal; `times` when it counts more than one refusal. */
export interface RefusalLine extends EgressRefusal {
  readonly times?: number;
}

interface RefusalRecord {
  add(refusal: EgressRefusal): void;
  readonly count: number;
  flush(): void;
}

const windowMs = 1000;
const linesPerWindow = 20;

/**
 * Limits the refusals in the journal, so that nobody fills a disk with them. The first ones of each second get a line
 * of their own, repeated ones are counted in a second line, and all others are counted together.
 */
export function createRefusalRecord(write: (line: RefusalLine) => void, now: () => number = Date.now): RefusalRecord {
  const repeated = new Map<string, { readonly refusal: EgressRefusal; times: number }>();
  let startedAt = 0;
  let others = 0;
  let count = 0;
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { refusal, times } of repeated.values()) if (times > 0) write({ ...refusal, times });
    if (others > 0) write({ to: '(various)', reason: 'and others', times: others });
    repeated.clear();
    others = 0;
    startedAt = now();
  }

  return {
    get count() {
      return count;
    },
    flush,
    add(refusal) {
      count++;
      if (now() - startedAt >= windowMs) flush();
      const key = `${refusal.to} ${refusal.reason}`;
      const known = repeated.get(key);
      if (known !== undefined) known.times++;
      else if (repeated.size < linesPerWindow) {
        repeated.set(key, { refusal, times: 0 });
        write(refusal);
        return;
      } else others++;
      timer ??= setTimeout(flush, windowMs).unref();
    },
  };
}
