import { redactBytes, redactionFor } from '../redact-settings.ts';
import type { OpenedFile } from './backend.ts';
import type { PathGuard } from './path-guard.ts';
import { closedPath } from './refusals.ts';

/** Settings are small; what is larger is not searched for credentials, and not shown. */
const largestShown = 1024 * 1024;

/**
 * A file as sessions may read it: one that holds settings with credentials among them is shown without their values. One
 * that sessions may change is shown as it is, else they would write back what they were shown.
 */
export async function withoutCredentials(file: OpenedFile, asked: string, guard: PathGuard): Promise<OpenedFile> {
  const { facts } = file;
  const names = facts.path.split('/');
  const redact = redactionFor(names);
  if (redact === undefined || guard.refusal('write', names) === undefined) return file;
  try {
    if (facts.bytes > largestShown) throw closedPath(asked, 'is too large to be shown without credentials', facts.path);
    const content = redactBytes(await file.read(0, largestShown), redact);
    return {
      facts: { ...facts, bytes: content.length },
      async read(offset, length) {
        for (const value of [offset, length]) {
          if (!Number.isSafeInteger(value) || value < 0) throw new RangeError('expected a whole number, 0 or more');
        }
        return content.subarray(offset, offset + length);
      },
      async close() {},
    };
  } finally {
    await file.close();
  }
}
