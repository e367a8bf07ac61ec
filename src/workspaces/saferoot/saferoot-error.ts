import { escapeControls } from '../../lib/text/escape-controls.ts';

/** Each text continues a sentence that begins with the path. None may contain a path of the host. */
const messages = {
  PATH_VIOLATION: 'leads outside the folder',
  PATH_INVALID: 'is not a path',
  NAME_TOO_LONG: 'is too long',
  TOO_DEEP: 'leads through too many folders',
  TOO_MANY_LINKS: 'leads through too many symbolic links',
  FILE_NOT_FOUND: 'does not exist',
  NOT_A_DIRECTORY: 'is not a folder, or leads through something that is not one',
  IS_A_DIRECTORY: 'is a folder',
  NOT_A_LINK: 'is not a link',
  NOT_ADMITTED: 'is protected',
  EXISTS: 'already exists',
  NOT_EMPTY: 'is not empty',
  SPECIAL_FILE: 'is a device, pipe or socket, which is never opened',
  HARD_LINKED: 'is a file with several hard links, which are not allowed here',
  TOO_LARGE: 'is larger than allowed',
  TOO_MANY_ENTRIES: 'contains more than allowed',
  INTO_ITSELF: 'cannot be moved into itself',
  CHANGED: 'was changed by someone else in the meantime',
  BUSY: 'is in use',
  NO_PERMISSION: 'cannot be used: permission denied',
  READ_ONLY: 'is on a read-only file system',
  NO_SPACE: 'cannot be written: the file system is full',
  OTHER_DEVICE: 'is on another file system',
  CLOSED: 'was used after the folder had been closed',
  UNSUPPORTED: 'cannot be opened safely on this machine',
  FAILED: 'could not be read or written',
} as const;

export type SafeRootCode = keyof typeof messages;

const systemCodes: Readonly<Record<string, SafeRootCode>> = {
  ENOENT: 'FILE_NOT_FOUND',
  ENOTDIR: 'NOT_A_DIRECTORY',
  EISDIR: 'IS_A_DIRECTORY',
  EEXIST: 'EXISTS',
  ENOTEMPTY: 'NOT_EMPTY',
  ENAMETOOLONG: 'NAME_TOO_LONG',
  EACCES: 'NO_PERMISSION',
  EPERM: 'NO_PERMISSION',
  EROFS: 'READ_ONLY',
  ENOSPC: 'NO_SPACE',
  EDQUOT: 'NO_SPACE',
  EFBIG: 'TOO_LARGE',
  EXDEV: 'OTHER_DEVICE',
  EAGAIN: 'BUSY',
  EBUSY: 'BUSY',
  ETXTBSY: 'BUSY',
  // The walk never lets the kernel follow a link, so this one is new.
  ELOOP: 'CHANGED',
};

/** The error of macOS for a path that would leave what its prefix allows; Node has no name for it. */
const notCapable = -107;

export interface SafeRootErrorDetails {
  /** As the caller wrote it. */
  readonly path?: string | undefined;
  /** A precise text in place of the one for the code. */
  readonly what?: string;
  /** The name of the system's error, such as `EIO`. */
  readonly system?: string | undefined;
  /** The resolved path, where the decision was about it. */
  readonly resolved?: string;
}

/** A refusal or failure inside a SafeRoot. It carries no `cause`: system errors quote paths of the host. */
export class SafeRootError extends Error {
  readonly code: SafeRootCode;
  /** The reason, as the rest of a sentence about the path. */
  readonly what: string;
  readonly path: string | undefined;
  readonly system: string | undefined;
  readonly resolved: string | undefined;
  readonly #details: SafeRootErrorDetails;

  constructor(code: SafeRootCode, details: SafeRootErrorDetails = {}) {
    super(`${quotePath(details.path)} ${details.what ?? messages[code]}.`);
    this.name = 'SafeRootError';
    this.code = code;
    this.what = details.what ?? messages[code];
    this.path = details.path;
    this.system = details.system;
    this.resolved = details.resolved;
    this.#details = details;
  }

  /** Adds the path of the caller to an error that has none. */
  forPath(path: string | undefined): SafeRootError {
    return this.path === undefined && path !== undefined
      ? new SafeRootError(this.code, { ...this.#details, path })
      : this;
  }
}

export function systemCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Converts system errors for the caller. Other errors, such as those of a content stream, stay as they are. */
export function asSafeRootError(error: unknown, path: string | undefined): unknown {
  if (error instanceof SafeRootError) return error.forPath(path);
  const system = systemCode(error);
  if (system === undefined) return error;
  if (process.platform === 'darwin' && (error as NodeJS.ErrnoException).errno === notCapable) {
    return new SafeRootError('PATH_VIOLATION', { path });
  }
  return new SafeRootError(systemCodes[system] ?? 'FAILED', { path, system });
}

/** Quotes a path for a message. An absolute path is not repeated, since it may be one of the host. */
export function quotePath(path: unknown): string {
  if (typeof path !== 'string' || path.startsWith('/')) return 'The path';
  return `"${escapeControls(path.length > 200 ? `${path.slice(0, 200)}…` : path)}"`;
}
