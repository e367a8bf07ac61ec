import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Offer } from './offer.ts';

export interface CatalogFile {
  load(): Map<string, Offer>;
  save(offers: ReadonlyMap<string, Offer>): void;
}

const mostOffers = 500;

/** The catalog on disk, so that a restart need not start every server; it holds what servers say to anybody. */
export function catalogFile(path: string): CatalogFile {
  let timer: NodeJS.Timeout | undefined;
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
      clearTimeout(timer);
      timer = setTimeout(() => {
        const kept = [...offers].slice(-mostOffers);
        try {
          writeFileSync(`${path}.tmp`, JSON.stringify(kept), { mode: 0o600 });
          renameSync(`${path}.tmp`, path);
        } catch {
          // A catalog that cannot be kept is asked for again.
        }
      }, 200).unref();
    },
  };
}

function isOffer(kept: Partial<Offer> | null | undefined): boolean {
  const lists = [kept?.tools, kept?.prompts, kept?.templates];
  return typeof kept?.at === 'number' && lists.every((list) => Array.isArray(list));
}
