/** Small texts beside the sessions, in named collections: users, keys, policies, credentials. */
export interface Documents {
  get(collection: string, key: string): Promise<Document | undefined>;
  /** With `expectedVersion` it writes only if the document has that version; 0 means that there is no document. */
  put(collection: string, key: string, text: string, options?: PutOptions): Promise<DocumentPut>;
  delete(collection: string, key: string, options?: AtVersion): Promise<DocumentDeleted>;
  /** Sorted by the bytes of their keys. A page may hold fewer than asked for; the last one has no `next`. */
  list(collection: string, options?: DocumentListOptions): Promise<DocumentPage>;
}

export interface Document {
  readonly key: string;
  readonly text: string;
  /** Rises with every write in the collection, so a document that is deleted and written again has a new version. */
  readonly version: number;
}

export interface AtVersion {
  readonly expectedVersion?: number;
}

export interface PutOptions extends AtVersion {
  /** The most documents of this collection, if fewer than the store allows. */
  readonly maxDocuments?: number;
  /** The most bytes of all texts of this collection together. Give it with each write of the collection, or never. */
  readonly maxBytes?: number;
}

export type DocumentPut =
  | { readonly outcome: 'written'; readonly version: number }
  /** The current version; 0 when there is no document. */
  | { readonly outcome: 'conflict'; readonly version: number }
  | { readonly outcome: 'full'; readonly limit: keyof DocumentLimits | 'totalBytes' };

export type DocumentDeleted =
  | { readonly outcome: 'deleted' }
  | { readonly outcome: 'absent' }
  | { readonly outcome: 'conflict'; readonly version: number };

export interface DocumentListOptions {
  readonly prefix?: string;
  /** `next` of the page before. */
  readonly after?: string;
  /** From 1 to 1000; 100 by default. */
  readonly limit?: number;
}

export interface DocumentPage {
  readonly documents: readonly Document[];
  readonly next: string | null;
}

export interface DocumentLimits {
  /** The size of one text. */
  readonly textBytes: number;
  /** The number of documents in one collection. */
  readonly documents: number;
}

export const defaultDocumentLimits: DocumentLimits = { textBytes: 131_072, documents: 10_000 };

/** A page ends when its texts reach this size, so that a listing neither blocks others nor fills the memory. */
export const maxPageBytes = 1_048_576;

/** Finds where a listing begins: at the prefix itself, or just after the previous page. */
export function findListStart({ prefix = '', after }: DocumentListOptions): { key: string; self: boolean } {
  if (after === undefined || Buffer.compare(Buffer.from(after), Buffer.from(prefix)) < 0) {
    return { key: prefix, self: true };
  }
  return { key: after, self: false };
}

/** Reads all documents of a collection whose keys begin with `prefix`, page by page. */
export async function readAllDocuments(documents: Documents, collection: string, prefix = ''): Promise<Document[]> {
  const all: Document[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page = await documents.list(collection, { prefix, limit: 1000, ...(after === undefined ? {} : { after }) });
    all.push(...page.documents);
    after = page.next;
  }
  return all;
}
