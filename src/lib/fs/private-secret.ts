import { lstatSync, readFileSync } from 'node:fs';
import { AmbitError } from '../../errors.ts';
import { withLock } from './file-lock.ts';
import { writeAtomically } from './write-atomically.ts';

/** The secret in a file that only its owner can read, made the first time it is wanted. */
export async function privateSecret(file: string, make: () => string): Promise<string> {
  return readSecret(file) ?? (await withLock(file, () => readSecret(file) ?? made(file, make())));
}

function made(file: string, secret: string): string {
  writeAtomically(file, `${secret}\n`);
  return secret;
}

/** Undefined when there is no such file. One that others can read holds no secret. */
export function readSecret(file: string): string | undefined {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  const readable = process.platform !== 'win32' && (stat.mode & 0o077) !== 0;
  if (!stat.isFile() || readable) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `The file ${file} holds a secret, but others can read it or it is no plain file.`,
      hint: `Remove it, or "chmod 600" it if nobody else has read it.`,
    });
  }
  const secret = readFileSync(file, 'utf8').trim();
  if (secret.length >= 24) return secret;
  throw new AmbitError('CONFIG_INVALID', {
    what: `The secret in ${file} is shorter than 24 characters.`,
    hint: 'Remove the file, and a new secret is made.',
  });
}
