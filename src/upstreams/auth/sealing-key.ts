import { createSecretKey, randomBytes } from 'node:crypto';
import { lstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { type SealingKey, sealingKeyId } from './seal.ts';

interface SealingKeySource {
  readonly dataDir: string;
  /** `credentials.keyFile` of the configuration. */
  readonly keyFile?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** The key that seals credentials. It is never in the store. */
export interface SealingKeys {
  /** The key; undefined while none has been made. */
  current(): SealingKey | undefined;
  /** The key, made now if there is none. */
  make(): Promise<SealingKey>;
}

const keyBytes = 32;

/** Reads the key from AMBIT_CREDENTIALS_KEY, else from `keyFile`, else from a file that is made on first use. */
export function openSealingKeys({ dataDir, keyFile, env }: SealingKeySource): SealingKeys {
  const given = env['AMBIT_CREDENTIALS_KEY'];
  if (given !== undefined && given !== '') return fixedKeys(parseKey(given, 'AMBIT_CREDENTIALS_KEY'));
  if (keyFile !== undefined) {
    const text = readPrivateText(keyFile);
    if (text === undefined) throw unusableKeyError(keyFile, 'it does not exist');
    return fixedKeys(parseKey(text, keyFile));
  }
  const file = join(dataDir, 'keys', 'credentials.key');
  let known: SealingKey | undefined;
  const current = () => {
    // Another process may have made it since.
    const text = known === undefined ? readPrivateText(file) : undefined;
    if (text !== undefined) known = parseKey(text, file);
    return known;
  };
  return {
    current,
    async make() {
      makePrivateFolder(dirname(file));
      return withLock(file, () => {
        const found = current();
        if (found !== undefined) return found;
        const text = randomBytes(keyBytes).toString('base64');
        writeAtomically(file, `${text}\n`);
        known = parseKey(text, file);
        return known;
      });
    },
  };
}

function fixedKeys(key: SealingKey): SealingKeys {
  return { current: () => key, make: async () => key };
}

/** Parses a key of 32 bytes, as base64 or hex. */
function parseKey(text: string, from: string): SealingKey {
  const written = text.trim();
  const secret = /^[0-9a-f]{64}$/i.test(written) ? Buffer.from(written, 'hex') : Buffer.from(written, 'base64');
  if (secret.length !== keyBytes || !/^[A-Za-z0-9+/_=-]{43,64}$/.test(written)) {
    throw unusableKeyError(from, 'it does not contain 32 bytes as base64 or hex');
  }
  return { id: sealingKeyId(secret), secret: createSecretKey(secret) };
}

function readPrivateText(file: string): string | undefined {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  const others = (stat.mode & 0o077) !== 0 || (process.getuid !== undefined && stat.uid !== process.getuid());
  if (others || !stat.isFile())
    throw unusableKeyError(file, 'it must belong to you, and nobody else may be able to read it (chmod 600)');
  return readFileSync(file, 'utf8');
}

function unusableKeyError(from: string, why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The key for credentials cannot be read from ${from}: ${why}.`,
    hint: 'Create one with "openssl rand -base64 32". All machines that share a store need the same key.',
  });
}
