import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { AmbitError } from '../../errors.ts';

const aliasSpec = /^npm:(?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+(?:@(.*))?$/is;

/** Versions, ranges and tags. A path, a URL or a repository has a slash, a colon, an @ or a #. */
const registrySpec = /^[0-9A-Za-z^~<>=*|&\s][0-9A-Za-z.+*^~<>=|&\s_-]*$/;

const archiveName = /\.(?:tgz|tar\.gz|tar)$/i;
export const versionPattern = /^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?$/;
export const installHint = 'If you trust the package, install it yourself and use its program as the command.';
/** Something in a package that does not come from the registry. */
export class OffenderError extends Error {}

const maxWordLength = 120;

/** Throws. `what` completes the sentence "it brings …". */
export function refuseOffender(what: string): never {
  throw new OffenderError(what);
}

/** Makes a word of a package safe to show: printable, short, and without the password of a URL. */
export function showWord(text: unknown): string {
  const plain = String(text)
    .replace(/\/\/[^/\s]*@/g, '//')
    .replace(/[^\x20-\x7e]/g, '?');
  return plain.length > maxWordLength ? `${plain.slice(0, maxWordLength)}…` : plain;
}

/** Whether npm looks for this specifier in a registry, and nowhere else. */
export function isRegistrySpec(spec: unknown): boolean {
  if (typeof spec !== 'string') return false;
  const [whole, version = ''] = aliasSpec.exec(spec) ?? [undefined, spec];
  if (whole === undefined && /^npm:/i.test(spec)) return false;
  return version === '' || (registrySpec.test(version) && !archiveName.test(version.trim()));
}

const mebibyte = 1 << 20;

/** The size limit of a manifest, which is read at each start. */
export const maxManifestBytes = 1 * mebibyte;
/** The size limit of a lock file, which is read at a fetch. */
export const maxLockBytes = 16 * mebibyte;

/**
 * Reads a file of a fetched package, by its path in the folder. Strangers choose its content and size: a larger file, a
 * link or anything else that is no plain file is refused by its name.
 */
export function readPackageFile(folder: string, path: string, maxBytes: number): string {
  const descriptor = openPlainFile(folder, path);
  try {
    const facts = fstatSync(descriptor);
    if (!facts.isFile()) throw refuseFile(path, 'is not a regular file');
    const content = readUpTo(descriptor, Math.min(facts.size, maxBytes) + 1);
    if (content.length > maxBytes)
      throw refuseFile(path, `is larger than ${maxBytes / mebibyte} MiB, which is the limit`);
    return content.toString('utf8');
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Reads a file that the user's settings name, such as one of certificates. It may lie in a workspace, where a session can
 * put a pipe in its place, which would never end.
 */
export function readNamedFile(path: string): Buffer {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = fstatSync(descriptor);
    if (facts.isFile() && facts.size <= maxLockBytes) return readUpTo(descriptor, facts.size);
    throw new AmbitError('UPSTREAM_FAILED', {
      what: `The file "${showWord(basename(path))}", which is in your settings, is too large or not a regular file`,
      hint: 'Name another file in your settings, such as SSL_CERT_FILE, NODE_EXTRA_CA_CERTS or the cafile of npm.',
    });
  } finally {
    closeSync(descriptor);
  }
}

/** Reads a file of settings of the user, such as ~/.npmrc. Empty if there is none; a pipe, for example, is refused. */
export function readSettingsFile(path: string): string {
  const facts = statSync(path, { throwIfNoEntry: false });
  // Many people name /dev/null where they want no settings.
  return facts === undefined || facts.isCharacterDevice() ? '' : readNamedFile(path).toString('utf8');
}

/** Returns the first bytes of a file of any size; none of anything but a plain file. */
export function readFileStart(path: string, maxBytes: number): Buffer {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    return fstatSync(descriptor).isFile() ? readUpTo(descriptor, maxBytes) : Buffer.alloc(0);
  } finally {
    closeSync(descriptor);
  }
}

function openPlainFile(folder: string, path: string): number {
  try {
    return openSync(join(folder, path), constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ELOOP') throw refuseFile(path, 'is not a regular file');
    throw cause;
  }
}

function readUpTo(descriptor: number, maxBytes: number): Buffer {
  const content = Buffer.allocUnsafe(maxBytes);
  let length = 0;
  for (let got = -1; got !== 0 && length < maxBytes; length += got) {
    got = readSync(descriptor, content, length, maxBytes - length, length);
  }
  return content.subarray(0, length);
}

function refuseFile(path: string, why: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The file "${showWord(path)}" of the package ${why}.`,
    hint: installHint,
  });
}
