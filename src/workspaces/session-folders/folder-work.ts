/** The work on the files in the folder of a session, which is loaded on its first use. */

export { createPathGuard } from '../path-guard.ts';
export { pathRules } from '../path-rules.ts';
export { openRoot } from '../saferoot/open-root.ts';
export { withBefore } from './base-content.ts';
export { changesOf, missingFrom } from './folder-changes.ts';
export { diffOf } from './folder-diff.ts';
export { sweepKept } from './kept-content.ts';
export { makeFolder } from './make-folder.ts';
export { mergeFolder } from './merge-folder.ts';
export { removeSessionFolder } from './remove-folder.ts';
export { readBase } from './snapshot.ts';
