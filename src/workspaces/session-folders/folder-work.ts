/** The work on the files in the folder of a session, which is loaded on its first use. */

export { createPathGuard } from '../path-guard.ts';
export { pathRules } from '../path-rules.ts';
export { openRoot } from '../saferoot/open-root.ts';
export { changesOf, missingFrom } from './changes.ts';
export { sweepKept } from './content-cache.ts';
export { diffOf } from './folder-diff.ts';
export { makeFolder } from './make-folder.ts';
export { mergeFolder } from './merge-folder.ts';
export { withBefore } from './original-content.ts';
export { removeSessionFolder } from './remove-folder.ts';
export { readBase } from './snapshot.ts';
