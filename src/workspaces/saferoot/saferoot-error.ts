import { escapeControls } from '../../lib/text/escape-controls.ts';

/** Each sentence goes on from the path as the caller wrote it. None may hold a path of the host. */
const messages = {
  PATH_VIOLATION: 'leads outside the folder',
  PATH_INVALID: 'is not a path',
  NAME_TOO_LONG: 'is longer than a path or a name may be',
  TOO_DEEP: 'leads through more folders than are followed',
  TOO_MANY_LINKS: 'leads through more links than are followed',
  FILE_NOT_FOUND: 'does not exist',
  NOT_A_DIRECTORY: 'is not a folder, or leads through something that is not one',
  IS_A_DIRECTORY: 'is a folder',
  NOT_A_LINK: 'is not a link',
  NOT_ADMITTED: 'may not be touched',
  EXISTS: 'exists already',
  NOT_EMPTY: 'is not empty',
  SPECIAL_FILE: 'is a device, pipe or socket, which is never opened',
  HARD_LINKED: 'is a file with several names, which is not changed in place',
  TOO_LARGE: 'is larger than was allowed',
  TOO_MANY_ENTRIES: 'holds more than was allowed',
  INTO_ITSELF: 'cannot be moved into itself',
  CHANGED: 'was changed by someone else meanwhile',
  BUSY: 'is in use',
  NO_PERMISSION: 'may not be used by this account',
  READ_ONLY: 'lies on a file system that is read-only',
  NO_SPACE: 'does not fit: the file system is full',
  OTHER_DEVICE: 'lies on another file system',
  CLOSED: 'was asked for after the folder had been closed',
  UNSUPPORTED: 'cannot be opened safely on this machine',
  FAILED: 'could not be used',
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
  // The walk never gives the kernel a link to follow; one can only have been put there since.
  ELOOP: 'CHANGED',
};

/** What the macOS kernel answers when a path would leave what its prefix allows; Node has no name for it. */
const notCapable = -107;

export interface SafeRootErrorDetails {
  /** As the caller wrote it. */
  readonly path?: string | undefined;
  /** The particular, in place of the sentence of the code. */
  readonly what?: string;
  /** The name of the system's error, such as `EIO`. */
  readonly system?: string | undefined;
  /** Where the path led, where that was what decided. */
  readonly resolved?: string;
}

/** A refusal or failure inside a SafeRoot. It carries no `cause`: system errors quote paths of the host. */
export class SafeRootError extends Error {
  readonly code: SafeRootCode;
  /** What is wrong with the path, as the rest of a sentence about it. */
  readonly what: string;
  readonly path: string | undefined;
  readonly system: string | undefined;
  readonly resolved: string | undefined;
  readonly #details: SafeRootErrorDetails;

  constructor(code: SafeRootCode, details: SafeRootErrorDetails = {}) {
    super(`${shownPath(details.path)} ${details.what ?? messages[code]}.`);
    this.name = 'SafeRootError';
    this.code = code;
    this.what = details.what ?? messages[code];
    this.path = details.path;
    this.system = details.system;
    this.resolved = details.resolved;
    this.#details = details;
  }

  /** The same, told of the path the caller gave, where it does not name one yet. */
  forPath(path: string | undefined): SafeRootError {
    return this.path === undefined && path !== undefined
      ? new SafeRootError(this.code, { ...this.#details, path })
      : this;
  }
}

export function systemCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** The error for the caller. What the system did not say, such as a failure of the content's own source, is left alone. */
export function asSafeRootError(error: unknown, path: string | undefined): unknown {
  if (error instanceof SafeRootError) return error.forPath(path);
  const system = systemCode(error);
  if (system === undefined) return error;
  if (process.platform === 'darwin' && (error as NodeJS.ErrnoException).errno === notCapable) {
    return new SafeRootError('PATH_VIOLATION', { path });
  }
  return new SafeRootError(systemCodes[system] ?? 'FAILED', { path, system });
}

/** A path as the caller wrote it, for a message. An absolute one is not repeated: it may be one of the host. */
export function shownPath(path: unknown): string {
  if (typeof path !== 'string' || path.startsWith('/')) return 'The path';
  return `"${escapeControls(path.length > 200 ? `${path.slice(0, 200)}…` : path)}"`;
}
