/**
 * Small texts that belong to no session and outlive them all, in named collections: users, keys, policies, credentials.
 * What they mean is up to whoever writes them; a store keeps them as they are.
 */
export interface Documents {
  get(collection: string, key: string): Promise<Document | undefined>;
  /** With `expectedVersion`, only when the document has it; 0 means that there must be none. */
  put(collection: string, key: string, text: string, options?: AtVersion): Promise<DocumentPut>;
  delete(collection: string, key: string, options?: AtVersion): Promise<DocumentDeleted>;
  /** In the order of the bytes of their keys. A page may hold fewer than asked for; the last one has no `next`. */
  list(collection: string, options?: DocumentListOptions): Promise<DocumentPage>;
}

export interface Document {
  readonly key: string;
  readonly text: string;
  /** Rises with every write in the collection: a document deleted and written again has another one. */
  readonly version: number;
}

export interface AtVersion {
  readonly expectedVersion?: number;
}

export type DocumentPut =
  | { readonly outcome: 'written'; readonly version: number }
  /** The version there is; 0 for none. */
  | { readonly outcome: 'conflict'; readonly version: number }
  | { readonly outcome: 'full'; readonly limit: keyof DocumentLimits };

export type DocumentDeleted =
  | { readonly outcome: 'deleted' }
  | { readonly outcome: 'absent' }
  | { readonly outcome: 'conflict'; readonly version: number };

export interface DocumentListOptions {
  readonly prefix?: string;
  /** `next` of the page before. */
  readonly after?: string;
  /** From 1 to 1000; 100 unless told. */
  readonly limit?: number;
}

export interface DocumentPage {
  readonly documents: readonly Document[];
  readonly next: string | null;
}

export interface DocumentLimits {
  /** Of one text. */
  readonly textBytes: number;
  /** In one collection. */
  readonly documents: number;
}

export const defaultDocumentLimits: DocumentLimits = { textBytes: 65_536, documents: 10_000 };

/** A page that reaches this many bytes of text ends there, so that none holds up others or fills the memory. */
export const maxPageBytes = 1_048_576;

/** Where a listing begins: with the prefix itself, or just after the page before. */
export function findListStart({ prefix = '', after }: DocumentListOptions): {
  readonly key: string;
  readonly self: boolean;
} {
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
