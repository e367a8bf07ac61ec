import { findRedaction, redactBytes } from '../lib/redact/redact-settings.ts';
import type { OpenedFile } from './backends/backend.ts';
import { protectedPathError } from './backends/refusals.ts';
import type { PathGuard } from './path-guard.ts';
import { assertByteRange } from './saferoot/read-file.ts';

/** Larger settings files are not searched for credentials, and not shown. */
const maxShownBytes = 1024 * 1024;

/**
 * Shows settings without the values of their credentials. A file that sessions may change is shown as it is, else they
 * would write back the redacted text. The file may also be known by other names, such as that of a link to it.
 */
export async function hideCredentials(
  file: OpenedFile,
  asked: string,
  guard: PathGuard,
  otherNames: readonly (readonly string[])[] = [],
): Promise<OpenedFile> {
  const { facts } = file;
  const protectedNames = [facts.path.split('/'), ...otherNames].filter(
    (names) => guard.refusal('write', names) !== undefined,
  );
  const redact = protectedNames.map(findRedaction).find((each) => each !== undefined);
  const reason = otherNames.map((names) => guard.refusal('read', names)).find((why) => why !== undefined);
  if (redact === undefined && reason === undefined) return file;
  try {
    if (redact === undefined || reason !== undefined) throw protectedPathError(asked, reason ?? '', facts.path);
    if (facts.bytes > maxShownBytes)
      throw protectedPathError(asked, 'is too large to be shown without credentials', facts.path);
    const content = redactBytes(await file.read(0, maxShownBytes), redact);
    return {
      facts: { ...facts, bytes: content.length },
      async read(offset, length) {
        assertByteRange(offset, length);
        return content.subarray(offset, offset + length);
      },
      async close() {},
    };
  } finally {
    await file.close();
  }
}
