import { withTimeout } from '../../lib/async/timeout.ts';
import type { WorkspaceBackend } from '../backends/backend.ts';
import { decodeText, readAhead } from '../search/grep.ts';
import type { UnembeddedPassage } from './index-database.ts';
import type { IndexThread } from './index-thread.ts';

/**
 * Turns texts into vectors, so that passages are also found by their meaning. Ambit includes no provider. A provider
 * gets the text of all indexed files: choose one that may read them.
 */
export interface EmbeddingProvider {
  /** The name of the model. Another name makes all vectors anew. */
  readonly name: string;
  /** Returns a vector for each text, all of the same length. */
  embed(
    texts: readonly string[],
    kind: 'passage' | 'question',
    signal: AbortSignal,
  ): Promise<readonly (readonly number[] | Float32Array)[]>;
}

interface EmbeddingParts {
  readonly file: string;
  readonly thread: IndexThread;
  readonly backend: Pick<WorkspaceBackend, 'open'>;
  readonly signal: AbortSignal;
}

const batchSize = 64;
const maxPassageLength = 4000;
/** A question that takes longer is answered by words alone. */
const questionMs = 1500;
const passagesMs = 60_000;

/** Embeds the passages that have no vector yet. */
export async function embedPassages(provider: EmbeddingProvider, parts: EmbeddingParts): Promise<void> {
  const { file, thread, backend, signal } = parts;
  for (let after = 0; ; ) {
    const passages = await thread.call(file, 'listUnembedded', provider.name, after, batchSize);
    const last = passages.at(-1);
    if (last === undefined) return;
    after = last.row;
    const texts = await readPassages(backend, passages);
    const known = passages.filter(({ row }) => texts.has(row));
    if (known.length === 0) continue;
    signal.throwIfAborted();
    const input = known.map(({ row }) => texts.get(row) as string);
    const vectors = await withTimeout(provider.embed(input, 'passage', signal), passagesMs);
    const rows = known.map(({ row }, index) => ({ row, vector: quantize(vectors[index]) }));
    await thread.call(file, 'putVectors', rows);
  }
}

/** Embeds a question. Without an answer in time, words alone decide. */
export async function embedQuestion(
  provider: EmbeddingProvider,
  question: string,
  onFailure: (error: unknown) => void,
): Promise<Int8Array | undefined> {
  const ending = new AbortController();
  try {
    const [vector] = await withTimeout(provider.embed([question], 'question', ending.signal), questionMs);
    return quantize(vector);
  } catch (error) {
    onFailure(error);
    return undefined;
  } finally {
    ending.abort();
  }
}

async function readPassages(
  backend: Pick<WorkspaceBackend, 'open'>,
  passages: readonly UnembeddedPassage[],
): Promise<Map<number, string>> {
  const texts = new Map<number, string>();
  const paths = [...new Set(passages.map(({ path }) => path))];
  for await (const { path, bytes } of readAhead(backend, paths)) {
    const lines = decodeText(bytes)?.text.split('\n') ?? [];
    for (const { row, startLine, endLine, ...rest } of passages) {
      if (rest.path !== path) continue;
      const text = lines.slice(startLine - 1, endLine).join('\n');
      texts.set(row, `${path}\n${text}`.slice(0, maxPassageLength));
    }
  }
  return texts;
}

/** Scales a vector to length 127 and rounds it: a quarter of the size, and the order hardly changes. */
function quantize(vector: readonly number[] | Float32Array | undefined): Int8Array {
  if (vector === undefined || vector.length === 0) throw new Error('The embedding provider returned no vector.');
  const length = Math.hypot(...vector);
  if (!Number.isFinite(length) || length === 0) throw new Error('The embedding provider returned no valid vector.');
  return Int8Array.from(vector, (value) => Math.round((value / length) * 127));
}
