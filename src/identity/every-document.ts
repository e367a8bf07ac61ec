import type { Document, Documents } from '../stores/documents.ts';

/** All of a collection, page by page. */
export async function everyDocument(documents: Documents, collection: string): Promise<Document[]> {
  const all: Document[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page = await documents.list(collection, { limit: 1000, ...(after === undefined ? {} : { after }) });
    all.push(...page.documents);
    after = page.next;
  }
  return all;
}
