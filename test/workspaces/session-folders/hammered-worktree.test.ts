import { afterAll, test } from 'vitest';
import { hammerFolders } from './hammer.ts';
import { stopGit } from './scene.ts';

afterAll(stopGit);

test('W12: many sessions hammer on one repository (worktree): none sees another, each diff is its own, merges land or report', () =>
  hammerFolders('worktree'));
