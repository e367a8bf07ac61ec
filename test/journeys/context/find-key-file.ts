import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeProtectedHeader } from 'jose';

/** Lists the key files of all processes of the gateways with this data directory. */
export function listKeyFiles(dataDir: string): string[] {
  return readdirSync(join(dataDir, 'tmp'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('/context-key.json'))
    .map((path) => join(dataDir, 'tmp', path));
}

/**
 * Finds the key file of the running process that a token was signed for. Undefined for a token with a public signature.
 * Throws if no process has the key.
 */
export function findKeyFile(dataDir: string, token: string): string | undefined {
  const { alg, kid } = decodeProtectedHeader(token);
  if (alg !== 'HS256') return undefined;
  const found = listKeyFiles(dataDir).find(
    (path) => (JSON.parse(readFileSync(path, 'utf8')) as { kid: string }).kid === kid,
  );
  if (found === undefined) throw new Error(`no process has the key ${kid}`);
  return found;
}
