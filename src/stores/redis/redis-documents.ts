import { checkDocument, checkDocumentList, fitsDocument } from '../checks.ts';
import { type DocumentLimits, type Documents, listFrom, pageBytes } from '../documents.ts';
import { type RedisConnection, script } from './connection.ts';
import { asList } from './replies.ts';
import * as scripts from './scripts/document-scripts.ts';

const get = script(scripts.documentGetScript);
const put = script(scripts.documentPutScript);
const remove = script(scripts.documentDeleteScript);
const list = script(scripts.documentListScript);

export function redisDocuments(connection: RedisConnection, limits: DocumentLimits): Documents {
  return {
    async get(collection, key) {
      checkDocument(collection, key);
      const [version, text] = asList(await connection.run(get, collection, key)) as string[];
      return version === undefined ? undefined : { key, text: text as string, version: Number(version) };
    },

    async put(collection, key, text, options = {}) {
      checkDocument(collection, key, options);
      const fits = fitsDocument(text, limits);
      const { expectedVersion = '' } = options;
      const values = [collection, key, fits ? text : '', expectedVersion, fits ? '0' : '1', limits.documents];
      const [word, detail] = asList(await connection.run(put, ...values));
      if (word === 'full') return { outcome: 'full', limit: detail as keyof DocumentLimits };
      return { outcome: word === 'written' ? 'written' : 'conflict', version: Number(detail) };
    },

    async delete(collection, key, options = {}) {
      checkDocument(collection, key, options);
      const { expectedVersion = '' } = options;
      const [word, version] = asList(await connection.run(remove, collection, key, expectedVersion));
      if (word === 'conflict') return { outcome: 'conflict', version: Number(version) };
      return { outcome: word === 'deleted' ? 'deleted' : 'absent' };
    },

    async list(collection, options = {}) {
      checkDocumentList(collection, options);
      const { prefix = '', limit = 100 } = options;
      const from = listFrom(options);
      const start = `${from.self ? '[' : '('}${from.key}`;
      const [more, found] = asList(await connection.run(list, collection, start, prefix, limit, pageBytes));
      const documents = (asList(found) as [string, string, string][]).map(([key, version, text]) => ({
        key,
        text,
        version: Number(version),
      }));
      return { documents, next: more === 1 ? (documents.at(-1)?.key ?? null) : null };
    },
  };
}
