import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Offer } from './offer.ts';

export interface CatalogFile {
  load(): Map<string, Offer>;
  save(offers: ReadonlyMap<string, Offer>): void;
  /** Writes what is still unwritten; from then on nothing is. */
  close(): void;
}

const mostOffers = 500;

/** The catalog on disk, so that a restart need not start every server; it holds what servers say to anybody. */
export function catalogFile(path: string): CatalogFile {
  let unwritten: ReadonlyMap<string, Offer> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function write(): void {
    const offers = unwritten;
    unwritten = undefined;
    if (offers === undefined) return;
    // Several processes may use the same data directory.
    const beside = `${path}.${process.pid}.tmp`;
    try {
      writeFileSync(beside, JSON.stringify([...offers].slice(-mostOffers)), { mode: 0o600 });
      renameSync(beside, path);
    } catch {
      // A catalog that cannot be kept is asked for again.
    }
  }

  return {
    load() {
      try {
        const kept = new Map(JSON.parse(readFileSync(path, 'utf8')) as [string, Partial<Offer> | null][]);
        return new Map([...kept].filter((entry): entry is [string, Offer] => isOffer(entry[1])));
      } catch {
        return new Map();
      }
    },
    save(offers) {
      if (closed) return;
      unwritten = offers;
      clearTimeout(timer);
      timer = setTimeout(write, 200).unref();
    },
    close() {
      closed = true;
      clearTimeout(timer);
      write();
    },
  };
}

function isOffer(kept: Partial<Offer> | null | undefined): boolean {
  const lists = [kept?.tools, kept?.prompts, kept?.templates];
  return typeof kept?.at === 'number' && lists.every((list) => Array.isArray(list));
}
