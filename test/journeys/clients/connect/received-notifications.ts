export interface Notification {
  readonly method: string;
  readonly params?: unknown;
}

/** The notifications a client has received, in order, and a way to wait for one. */
export interface ReceivedNotifications {
  readonly all: readonly Notification[];
  add(notice: Notification): void;
  withMethod(method: string): Notification[];
  waitFor(fits: (notice: Notification) => boolean): Promise<Notification>;
}

export function createReceivedNotifications(): ReceivedNotifications {
  const all: Notification[] = [];
  const waiting = new Set<(notice: Notification) => void>();
  return {
    all,
    add(notice) {
      all.push(notice);
      for (const look of [...waiting]) look(notice);
    },
    withMethod: (method) => all.filter((notice) => notice.method === method),
    waitFor: (fits) =>
      new Promise((resolve) => {
        const past = all.find(fits);
        if (past !== undefined) {
          resolve(past);
          return;
        }
        const look = (notice: Notification) => {
          if (!fits(notice)) return;
          waiting.delete(look);
          resolve(notice);
        };
        waiting.add(look);
      }),
  };
}
