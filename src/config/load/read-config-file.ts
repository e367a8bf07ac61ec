import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { AmbitError } from '../../errors.ts';
import { findExposure } from '../../lib/fs/private-files.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';

const mebibyte = 1_048_576;

const readErrorReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ELOOP: 'its symbolic links form a loop',
};

function unreadableError(file: string, reason: string, cause?: unknown): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `${escapeControls(file)}: ${reason}`,
    hint: 'Choose a configuration file with "--config FILE", or create this one with "ambit init".',
    cause,
  });
}

export function decodeConfigText(bytes: Uint8Array, file: string, maxBytes = mebibyte): string {
  if (bytes.byteLength > maxBytes) throw unreadableError(file, `it is larger than ${maxBytes / mebibyte} MiB`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw unreadableError(file, 'it is not UTF-8 text', cause);
  }
}

/** Throws if another user could change the configuration, which names the programs that we start. */
export function assertNobodyElseWrites(file: string): void {
  const exposed = findExposure(file);
  if (exposed === undefined) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: `${escapeControls(file)} may have been changed by another user: ${exposed}.`,
    hint: 'Review its content. Then change owner and mode with "chown" and "chmod go-w", also of the folders above it, or choose another file with "--config FILE".',
  });
}

/** Reads our own configuration. Files of projects and other programs are read without checking their owner. */
export async function readOwnConfigFile(file: string): Promise<string> {
  assertNobodyElseWrites(file);
  return readConfigFile(file);
}

/** Reads a configuration file without waiting on a pipe or reading past the limit. */
export async function readConfigFile(file: string, maxBytes = mebibyte): Promise<string> {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch((cause: unknown) => {
    const code = (cause as NodeJS.ErrnoException).code ?? '';
    throw unreadableError(file, readErrorReasons[code] ?? `it cannot be read (${code})`, cause);
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw unreadableError(file, 'it is not a regular file');
    // The file may grow while it is read.
    const buffer = Buffer.alloc(Math.min(Math.max(stats.size, mebibyte), maxBytes) + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
      length += bytesRead;
      if (bytesRead === 0 || length === buffer.length) break;
    }
    return decodeConfigText(buffer.subarray(0, length), file, maxBytes);
  } finally {
    await handle.close();
  }
}
