export interface Notice {
  readonly method: string;
  readonly params?: unknown;
}

/** The notifications a client has received, in order, and a way to wait for one. */
export interface Heard {
  readonly all: readonly Notice[];
  add(notice: Notice): void;
  of(method: string): Notice[];
  until(fits: (notice: Notice) => boolean): Promise<Notice>;
}

export function createHeard(): Heard {
  const all: Notice[] = [];
  const waiting = new Set<(notice: Notice) => void>();
  return {
    all,
    add(notice) {
      all.push(notice);
      for (const look of [...waiting]) look(notice);
    },
    of: (method) => all.filter((notice) => notice.method === method),
    until: (fits) =>
      new Promise((resolve) => {
        const past = all.find(fits);
        if (past !== undefined) {
          resolve(past);
          return;
        }
        const look = (notice: Notice) => {
          if (!fits(notice)) return;
          waiting.delete(look);
          resolve(notice);
        };
        waiting.add(look);
      }),
  };
}
