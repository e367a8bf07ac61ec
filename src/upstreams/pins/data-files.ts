import { realpathSync, statSync } from 'node:fs';

/** Names of files that servers write to, or that are too large to read at each start. */
const dataNames =
  /\.(?:jsonl?|ndjson|db|sqlite3?|duckdb|kuzu|log|csv|tsv|txt|md|gguf|safetensors|onnx|parquet|sock|pid|lock)$/i;

/** Whether a file is there to be read or written, by its name, and is not marked as one that can be run. */
export function isDataFile(path: string): boolean {
  if (!dataNames.test(path)) return false;
  try {
    // An interpreter goes by the name that a link leads to.
    return dataNames.test(realpathSync.native(path)) && (statSync(path).mode & 0o111) === 0;
  } catch {
    return true;
  }
}
