import { checkDocument, checkDocumentList, fitsDocument, isConflict } from '../checks.ts';
import { type Document, type DocumentLimits, type Documents, findListStart, maxPageBytes } from '../documents.ts';
import type { ChangeFeed } from '../feed.ts';

interface Collection {
  version: number;
  readonly documents: Map<string, Document>;
}

const compareBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

export function createMemoryDocuments(limits: DocumentLimits, feed: ChangeFeed): Documents {
  const collections = new Map<string, Collection>();

  function ensureCollection(name: string): Collection {
    const known = collections.get(name) ?? { version: 0, documents: new Map<string, Document>() };
    collections.set(name, known);
    return known;
  }

  return {
    async get(collection, key) {
      checkDocument(collection, key);
      const found = collections.get(collection)?.documents.get(key);
      return found && { ...found };
    },

    async put(collection, key, text, options = {}) {
      checkDocument(collection, key, options);
      const fits = fitsDocument(text, limits);
      const target = ensureCollection(collection);
      const version = target.documents.get(key)?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      if (!fits) return { outcome: 'full', limit: 'textBytes' };
      if (version === 0 && target.documents.size >= limits.documents) return { outcome: 'full', limit: 'documents' };
      target.version++;
      target.documents.set(key, { key, text, version: target.version });
      feed.publish({ kind: 'document', collection, key });
      return { outcome: 'written', version: target.version };
    },

    async delete(collection, key, options = {}) {
      checkDocument(collection, key, options);
      const documents = collections.get(collection)?.documents;
      const version = documents?.get(key)?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      if (!documents?.delete(key)) return { outcome: 'absent' };
      feed.publish({ kind: 'document', collection, key });
      return { outcome: 'deleted' };
    },

    async list(collection, options = {}) {
      checkDocumentList(collection, options);
      const { prefix = '', limit = 100 } = options;
      const from = findListStart(options);
      const keys = [...(collections.get(collection)?.documents.keys() ?? [])]
        .filter((key) => key.startsWith(prefix) && (from.self || compareBytes(key, from.key) > 0))
        .sort(compareBytes);
      const documents: Document[] = [];
      let bytes = 0;
      for (const key of keys) {
        if (documents.length === limit || bytes >= maxPageBytes) break;
        const found = collections.get(collection)?.documents.get(key) as Document;
        documents.push({ ...found });
        bytes += Buffer.byteLength(found.text);
      }
      return { documents, next: documents.length < keys.length ? (documents.at(-1)?.key ?? null) : null };
    },
  };
}
