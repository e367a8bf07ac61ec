import { test } from 'vitest';
import { hammerFolders } from './hammer.ts';

test('W12: many sessions hammer on one repository (copy): none sees another, each diff is its own, merges land or report', () =>
  hammerFolders('copy'));
