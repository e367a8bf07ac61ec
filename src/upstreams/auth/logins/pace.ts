/** How often something may be begun under one name: whoever holds a link, or an agent that goes on asking, is slowed down. */
export function createPace(most: number, spanMs: number, now: () => number): (name: string) => boolean {
  let begun = new Map<string, number>();
  let since = now();
  return (name) => {
    if (now() - since >= spanMs) {
      begun = new Map();
      since = now();
    }
    const count = (begun.get(name) ?? 0) + 1;
    if (count > most) return false;
    begun.set(name, count);
    return true;
  };
}
